"""What compaction costs: the numbers of the calculator, a figure, and a static form that says they are estimates."""

import nova_nb as nova


def test_a_row_a_main_call_with_the_numbers_of_the_calculator():
    session = nova.open_session(nova.examples.path("claude-code-compaction"))
    view = session.economics()
    main = [s for s in session.steps if s.kind == "main" and s.usage and s.usage.context]
    assert [row["step"] for row in view.data] == [s.number for s in main]
    assert view.data[-1]["context"] == main[-1].usage.context
    assert view.threshold > view.data[-1]["after"]


def test_the_bundle_has_a_figure_and_a_static_form():
    view = nova.open_session(nova.examples.path("claude-code-compaction")).economics("workshop")
    bundle, _ = view._repr_mimebundle_()
    assert bundle["application/vnd.plotly.v1+json"]["data"]
    assert "Estimates" in bundle["text/html"]
    assert bundle["text/plain"] == repr(view)


def test_a_session_without_usage_says_so():
    view = nova.open_session(nova.examples.path("letta.af")).economics()
    assert view.data == []
    assert "nothing can be said" in view.static_html()
