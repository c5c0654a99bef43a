"""The console as people see it: on a desk and a phone, light and dark, with and without JavaScript, and by keyboard."""

from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Locator, Page, Request, expect

from gf_i2p.cli.page.console import Console, Farm
from gf_i2p.cli.page.words import LANGUAGES, words_in
from gf_i2p.cli.shared.local_client import request
from integration.browser.conftest import LEAVES, SECONDS, post_records
from integration.harness.local_farm import LocalFarm, until

SCREENSHOTS: Final = Path("build/screenshots")
SIZES: Final = {"desk": (1280, 800), "phone": (390, 844)}
_GRAVE: Final = {"serious", "critical"}
_CUT: Final = """() => [...document.querySelectorAll("a.button, button, th, dt, td")]
    .filter((each) => each.offsetParent && each.scrollWidth > each.clientWidth + 1).map((each) => each.textContent)"""
_WIDER: Final = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture
def opened(chromium: Browser, link: str) -> Callable[..., Coroutine[Any, Any, Page]]:
    """Return a function that opens the console in a new window; the options are Playwright's for a context."""

    async def open_page(size: str = "desk", **options: Any) -> Page:
        width, height = SIZES[size]
        context = await chromium.new_context(viewport={"width": width, "height": height}, **options)
        context.set_default_timeout(SECONDS * 1000)
        page = await context.new_page()
        await page.goto(link)
        await expect(page.get_by_role("heading", name="All is well")).to_be_visible(timeout=SECONDS * 1000)
        return page

    return open_page


async def grave(page: Page) -> list[str]:
    """Return what axe-core calls serious or critical on the page, each with the first element that is concerned."""
    found = await Axe().run(page)
    return [
        f"{each['impact']} {each['id']}: {each['help']}: {each['nodes'][0]['html']}"
        for each in found.response["violations"]
        if each["impact"] in _GRAVE
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
async def test_every_page_fits_its_screen_and_has_no_grave_barrier(
    opened: Callable[..., Coroutine[Any, Any, Page]], size: str, scheme: str
) -> None:
    page = await opened(size, color_scheme=scheme)
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    await expect(page.get_by_role("link", name="Exclude")).to_have_count(LEAVES)
    for summary in await page.locator("summary").all():
        await summary.click()
    top = page.url
    for name, address in {
        "farm": "",
        "server": "server?id=2",
        "question": "confirm?action=drain&subject=2",
        "refusal": "confirm?action=burn&subject=2",
        "import": "import",
    }.items():
        if address:
            await page.goto(top + address)
        await page.screenshot(path=SCREENSHOTS / f"{name}-{size}-{scheme}.png", full_page=True)
        assert await page.evaluate(_WIDER) <= 0, f"{name} must be scrolled sideways"
        assert await grave(page) == [], name


@pytest.mark.parametrize("language", LANGUAGES)
async def test_every_page_fits_a_phone_in_each_language(
    farm: LocalFarm, chromium: Browser, link: str, language: str
) -> None:
    width, height = SIZES["phone"]
    context = await chromium.new_context(viewport={"width": width, "height": height}, locale=f"{language}-XX")
    context.set_default_timeout(SECONDS * 1000)
    page = await context.new_page()
    await page.goto(link)
    farm.kill(3)
    trouble = words_in(language).of_node("Server 3 is not reached.").rstrip(".।")
    await expect(page.get_by_text(trouble).first).to_be_visible(timeout=SECONDS * 1000)
    top = page.url
    for name, address in {"farm": "", "server": "server?id=2", "question": "confirm?action=drain&subject=2"}.items():
        await page.goto(top + address)
        for summary in await page.locator("summary").all():
            await summary.click()
        await page.screenshot(path=SCREENSHOTS / f"{name}-phone-{language}.png", full_page=True)
        assert await page.locator("html").get_attribute("lang") == language
        assert await page.evaluate(_WIDER) <= 0, f"{name} must be scrolled sideways"
        assert await page.evaluate(_CUT) == [], f"{name} has labels that are cut"
        assert await grave(page) == [], name


async def test_axe_finds_a_barrier_where_there_is_one(opened: Callable[..., Coroutine[Any, Any, Page]]) -> None:
    page = await opened()
    await page.evaluate("document.body.insertAdjacentHTML('beforeend', '<button></button>')")
    assert any("button-name" in line for line in await grave(page))


async def test_the_browser_asks_nobody_but_the_console(chromium: Browser, link: str) -> None:
    asked: list[str] = []
    context = await chromium.new_context()
    context.on("request", lambda each: asked.append(_origin(each)))
    page = await context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    await page.goto(link)
    await expect(page.get_by_role("heading", name="Events")).to_be_visible()
    await page.goto(f"{page.url}server?id=1")
    await expect(page.get_by_role("img").first).to_be_visible()
    assert set(asked) == {link.partition("/open")[0]}
    assert [text for text in complaints if "favicon" not in text] == []


def _origin(each: Request) -> str:
    return "/".join(each.url.split("/")[:3])


async def test_the_page_shows_a_change_of_the_farm_by_itself(
    farm: LocalFarm, opened: Callable[..., Coroutine[Any, Any, Page]]
) -> None:
    page = await opened()
    await page.locator("summary").first.click()
    await page.get_by_role("link", name="Drain 2").focus()
    farm.kill(3)
    await expect(page.get_by_text("Server 3 is not reached")).to_be_visible(timeout=SECONDS * 1000)
    await expect(page.get_by_role("heading", name="The farm works, and something needs you")).to_be_visible()
    assert await page.locator("details").first.get_attribute("open") is not None, "what was open stays open"
    await expect(page.get_by_role("link", name="Drain 2")).to_be_focused()
    farm.kill(2)
    words = "The farm takes no posts through this server"
    await expect(page.get_by_role("heading", name=words)).to_be_visible(timeout=SECONDS * 1000)
    farm.kill(1)
    await expect(page.get_by_role("status")).to_contain_text("no node answers", timeout=SECONDS * 1000)
    for server in farm.ids:
        farm.start(server)
    await expect(page.get_by_role("heading", name="All is well")).to_be_visible(timeout=SECONDS * 1000)


@pytest.mark.parametrize("javascript", [True, False])
async def test_a_leaf_is_excluded_and_included_by_keyboard(
    farm: LocalFarm, opened: Callable[..., Coroutine[Any, Any, Page]], *, javascript: bool
) -> None:
    page = await opened("phone", java_script_enabled=javascript)
    for word, excluded in (("Exclude", True), ("Include", False)):
        await page.get_by_role("link", name=word).first.press("Enter")
        await page.get_by_label("Reason, for the log").fill(f"<i>{word}</i> by hand")
        await page.get_by_label("Reason, for the log").press("Enter")
        await page.wait_for_url("**/")

        async def is_done(expected: bool = excluded) -> bool:
            answer = await request(farm.node(1), "GET", "/v1/administration")
            return any(leaf["excluded"] is not None for leaf in answer["leaves"]) is expected

        await until(word, SECONDS, is_done)
    await page.reload()
    await expect(page.get_by_role("link", name="Exclude")).to_have_count(LEAVES)
    log = (await request(farm.node(1), "GET", "/v1/administration"))["log"]
    assert [each["reason"] for each in log] == ["<i>Exclude</i> by hand", "<i>Include</i> by hand"]


async def test_a_page_that_asks_again_shows_what_is_new(farm: LocalFarm, chromium: Browser) -> None:
    console = Console([Farm(partial(request, farm.node(server)), f"by server {server}", None) for server in (1, 2)])
    async with console.serving() as link:
        page = await chromium.new_page()
        await page.clock.install()
        await page.goto(link)
        await expect(page.get_by_role("cell", name="healthy")).to_have_count(2, timeout=SECONDS * 1000)
        assert await grave(page) == []
        top = page.url
        farm.kill(3)
        await asks_again(page, page.get_by_text("Server 3 is not reached").first, 5)

        await page.goto(f"{top}1/server?id=2")
        await expect(page.get_by_role("cell", name="80", exact=True)).to_be_visible()
        await post_records(farm, tunnels=70)
        await asks_again(page, page.get_by_role("cell", name="140", exact=True), 60)
    await asks_again(page, page.get_by_role("status").filter(has_text="is the command still running?"), 60)


async def asks_again(page: Page, awaited: Locator, every: int) -> None:
    """Let the page's clock run until the page shows something new. `every`: seconds between two questions."""

    async def is_there() -> bool:
        await page.clock.fast_forward(1000 * every + 1000)
        return await awaited.is_visible()

    await until("the page shows what is new", SECONDS, is_there, poll=0.5)


async def test_a_file_goes_out_and_comes_back_changed(
    farm: LocalFarm, opened: Callable[..., Coroutine[Any, Any, Page]], tmp_path: Path
) -> None:
    page = await opened("phone", java_script_enabled=False)
    await page.locator("summary").first.click()
    async with page.expect_download() as download:
        await page.get_by_role("link", name="The farm’s configuration as a file").click()
    file = tmp_path / "farm.toml"
    text = (await (await download.value).path()).read_text()
    assert "margin" not in text
    file.write_text(text.replace('cluster = "farm"\n', 'cluster = "farm"\nparameters = {margin = 60}\n', 1))
    await page.get_by_role("link", name="Import such a file").click()
    await page.get_by_label("perhaps edited").set_input_files(file)
    await page.get_by_role("button", name="Show the differences").click()
    await expect(page.get_by_text("margin default -> 60")).to_be_visible()
    await page.screenshot(path=SCREENSHOTS / "import-phone-light.png", full_page=True)
    await page.get_by_role("button", name="Yes, change the farm").click()
    await expect(page.get_by_role("heading", name="The farm is as the file says")).to_be_visible()
    administration = await request(farm.node(1), "GET", "/v1/administration")
    assert administration["parameters"]["margin"]["value"] == 60


async def test_a_foreign_page_changes_nothing(
    farm: LocalFarm, opened: Callable[..., Coroutine[Any, Any, Page]]
) -> None:
    page = await opened()
    foreign = await page.context.new_page()
    form = f"""<form method="post" action="{page.url}change">
        <input name="action" value="drain"><input name="subject" value="1"><button>Win a prize</button></form>"""
    await foreign.route("http://foreign.example/", lambda route: route.fulfill(body=form, content_type="text/html"))
    await foreign.goto("http://foreign.example/")
    async with foreign.expect_response(page.url + "change") as answered:
        await foreign.get_by_role("button").click()
    assert (await answered.value).status == 404
    assert (await request(farm.node(1), "GET", "/v1/administration"))["log"] == []
