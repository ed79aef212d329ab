package main

import (
	"fmt"
	"strings"
)

// live goes through all views of the dashboard of a live T3000, cuts a cable by click, and looks at
// what the page says about it.
func (b *browser) live(url string) {
	b.open(url, 1280, 800, false, false)
	b.key()
	b.machine()
	b.cut()
	b.route()
	b.routers()
	b.chipFaults()
	b.impairment()
	b.lists()
	b.looks(url)
}

// key checks that the page takes the keys from the address, and keeps them in memory only.
func (b *browser) key() {
	b.has("the page shows the fabric's name", "summary", "t3000: 8 chips")
	if b.err != nil {
		return
	}
	left, err := eval[string](b, "location.href + document.cookie + JSON.stringify({...localStorage}) + JSON.stringify({...sessionStorage})")
	b.fail(err)
	if strings.Contains(left, "read") || strings.Contains(left, "control=") {
		b.fail(fmt.Errorf("the keys are still in the address or in the page's storage: %s", left))
	}
	b.has("all chips answer", "totals", "8/8")
}

func (b *browser) machine() {
	b.has("nothing needs attention", "panel", "all cables carry their own links")
	b.has("the page is live", "status", "live")
	b.clickMap("chip('M0D5')")
	b.has("a click on a chip shows the chip", "panel", "M0D5")
	b.has("a screen reader hears of the chip", "said", "chip M0D5, row 1, column 1")
	b.keys("c")
	b.has("the key C goes to a cable of the chip", "said", "cable M0D")
	b.keys("\u001b")
	b.has("Escape clears the choice", "panel", "Needs attention")
	b.shot("machine")
}

// cut cuts both cables between two chips by click.
func (b *browser) cut() {
	for i, name := range []string{"M0D5/0-M0D6/0", "M0D5/1-M0D6/1"} {
		b.clickMap("cable('" + name + "')")
		b.has("a click on a cable shows the cable", "panel", name)
		b.click("cut")
		b.has("the cable is cut", "panel", "cut: "+name)
		if i == 0 {
			b.has("the link goes by the other cable", "panel", "its frames go by M0D5/1-M0D6/1")
			b.shot("fallback")
		}
	}
	b.has("the totals count the cut cables", "totals", "2 cut")
	b.has("the routes avoid the cable", "panel", "the routes avoid it")
	b.shot("cut")
	b.keys("\u001b")
	b.has("the overview names the cut cable", "panel", "M0D5/0-M0D6/0")
	b.shot("attention")
}

// route looks at the route round the cut, and heals the fabric.
func (b *browser) route() {
	b.clickMap("chip('M0D5')")
	b.clickMap("chip('M0D6')", withShift)
	b.has("two clicked chips show the route round the cut", "panel", "3 hops from M0D5 to M0D6")
	b.has("the route uses a virtual channel for detours", "panel", "data-detour")
	b.shot("route")
	b.click("route-clear", "tab-details")
	b.keys("\u001b")
	b.click("heal")
	b.has("one click heals all", "panel", "healed: 2 cables put back")
	b.has("all cables are up again", "panel", "all cables carry their own links")
	b.clickMap("chip('M0D5')")
	b.clickMap("chip('M0D6')", withShift)
	b.has("the route is straight again", "panel", "1 hop from M0D5 to M0D6")
	b.click("route-clear", "tab-details")
	b.keys("\u001b")
	b.clickMap("chip('M0D4')")
	b.clickMap("chip('M0D2')", withShift)
	b.has("the route goes along the row", "panel", "3 hops from M0D4 to M0D2")
	b.option("route-as", "m")
	b.has("the tree of a multicast is shown", "panel", "A tree of 5 hops from M0D4 to the 5 chips of the rectangle")
	b.shot("tree")
	b.option("route-as", "u")
	b.click("route-clear", "tab-details")
}

// routers slows a cable down by click, and looks at the packets that wait for the cable.
func (b *browser) routers() {
	b.clickMap("cable('M0D1/6-M0D2/6')")
	b.fillIn("impair-rate", "2Mbit")
	b.click("impair")
	b.has("the cable is slow", "panel", "rate=2Mbit")
	b.clickMap("chip('M0D1')")
	b.click("open-figure")
	b.until("the routers of the chip are shown", "document.querySelectorAll('#figure .router').length === 6")
	b.has("a sender channel is the worker's", "figure", "0 worker")
	b.has("credits are shown", "figure", "credits")
	b.has("packets wait in channels", "figure", "first ")
	b.shot("routers")
	b.click("all-vcs")
	b.has("all virtual channels can be shown", "figure", "control")
	b.shot("routers-all")
	b.click("close-figure")
	b.clickMap("cable('M0D1/6-M0D2/6')")
	b.shot("slow")
	b.click("clear")
	b.has("the cable is fast again", "panel", "no longer impaired")
}

// chipFaults pauses, resumes, kills and starts a chip.
func (b *browser) chipFaults() {
	b.clickMap("chip('M0D7')")
	b.click("pause")
	b.has("the chip is paused", "panel", "chip M0D7 paused")
	b.has("the paused chip does not answer", "panel", "no answer")
	b.shot("paused")
	b.click("resume")
	b.has("the chip is resumed", "panel", "chip M0D7 resumed")
	b.has("all chips answer again", "totals", "8/8")
	b.click("kill")
	b.has("killing needs a second click", "kill", "click again")
	b.click("kill")
	b.has("the chip is killed", "panel", "not running")
	b.has("seven chips answer", "totals", "7/8")
	b.shot("killed")
	b.click("start")
	b.has("the chip runs again", "totals", "8/8")
	b.until("all links are up again", "window.ttfabric.store.state.total.states.up === 20")
}

func (b *browser) impairment() {
	b.clickMap("cable('M0D0/0-M0D1/8')")
	b.fillIn("impair-loss", "20%")
	b.fillIn("impair-rate", "100Mbit")
	b.click("impair")
	b.has("the cable is impaired", "panel", "impaired: ")
	b.has("the page shows the impairment", "panel", "loss=20%")
	b.shot("impaired")
	b.fillIn("impair-loss", "200%")
	b.click("impair")
	b.has("a wrong value is refused with its name", "panel", "200%")
	b.click("clear")
	b.has("the impairments end", "panel", "no longer impaired")
}

func (b *browser) lists() {
	b.click("tab-events")
	b.shot("events")
	b.click("kind-loss", "kind-down", "kind-good", "kind-other")
	b.has("the events tell of the cut", "panel", "M0D5 channel 0 fault cut")
	b.shot("faults")
	b.click("tab-links")
	b.has("the links are listed", "panel", "M0D0/0-M0D1/8")
	b.shot("links")
	b.click("tab-losses")
	b.has("the losses are balanced", "panel", "packets entered the fabric")
	b.shot("losses")
	b.click("tab-details", "by-load")
	b.keys("\u001b")
	b.shot("load")
}

// looks takes pictures of the page in dark, on a phone and without a key.
func (b *browser) looks(url string) {
	b.open(url, 1280, 800, false, true)
	b.has("the page works in dark", "totals", "8/8")
	b.shot("dark")
	b.open(url, 390, 844, true, false)
	b.has("the page works on a phone", "totals", "8/8")
	b.until("the page fits the phone's width", "document.documentElement.scrollWidth <= 390")
	b.shot("phone")
	b.clickMap("chip('M0D2')")
	b.has("a tap shows the chip", "panel", "M0D2")
	b.click("open-figure")
	b.has("the routers fit the phone", "figure", "credits")
	b.shot("phone-routers")
	b.open(strings.Split(url, "#")[0], 1280, 800, false, false)
	b.until("the page without a key asks for one", "!document.getElementById('gate').hidden")
	b.shot("gate")
}
