// Command browser tests a dashboard in headless Chromium, and takes screenshots. The dashboard must
// run with the flag --control, and show a running T3000. scripts/prove-dashboard starts the T3000
// and the dashboard, and calls this program:
//
//	browser -url 'http://127.0.0.1:8480/#read=…&control=…' -shots FOLDER
//
// With -large, the program serves a dashboard of 1,024 made-up chips itself, and measures how fast
// the page draws.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// browser is a browser with one page. After the first failure, the methods do nothing.
type browser struct {
	ctx   context.Context
	shots string // folder for screenshots; "": none
	err   error  // the first failure
}

// patience is the longest time until the page shows what it should.
const patience = 15 * time.Second

func main() {
	url := flag.String("url", "", "address of the dashboard of a live T3000, with both keys")
	shots := flag.String("shots", "", "folder for screenshots")
	large := flag.Bool("large", false, "also test a page of 1,024 made-up chips, and measure how fast the page draws")
	flag.Parse()
	if *url == "" && !*large {
		fmt.Fprintln(os.Stderr, "usage: browser -url ADDRESS [-shots FOLDER] [-large]")
		os.Exit(2)
	}
	b, stop := start(*shots)
	b.run(log.Enable())
	if *url != "" {
		b.live(*url)
	}
	if *large {
		b.large()
	}
	stop()
	if b.err != nil {
		fmt.Fprintln(os.Stderr, "browser:", b.err)
		os.Exit(1)
	}
}

// start prepares a browser with one page. The browser's first command starts Chromium. The second
// result is a function that ends Chromium.
func start(shots string) (*browser, func()) {
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.WindowSize(1280, 800), chromedp.Flag("hide-scrollbars", false))
	alloc, cancelAlloc := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, cancel := chromedp.NewContext(alloc)
	b := &browser{ctx: ctx, shots: shots}
	chromedp.ListenTarget(ctx, func(e any) { // an error of the page is a failure of the test
		switch e := e.(type) {
		case *runtime.EventExceptionThrown:
			b.broken(e.ExceptionDetails.Error())
		case *log.EventEntryAdded:
			if e.Entry.Level == log.LevelError && !strings.Contains(e.Entry.Text, "Failed to load resource") {
				b.broken(e.Entry.Text)
			}
		}
	})
	return b, func() { cancel(); cancelAlloc() }
}

// broken ends the test, because the page's code failed or broke the Content-Security-Policy.
func (b *browser) broken(why string) {
	fmt.Fprintln(os.Stderr, "browser: the page failed:", why)
	os.Exit(1)
}

// run gives the browser commands.
func (b *browser) run(actions ...chromedp.Action) {
	if b.err == nil {
		b.err = chromedp.Run(b.ctx, actions...)
	}
}

// fail ends the test, if err is an error.
func (b *browser) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// open shows a page in a window of the given size.
func (b *browser) open(url string, width, height int64, phone, dark bool) {
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	b.run(
		emulation.SetDeviceMetricsOverride(width, height, 1, phone), emulation.SetTouchEmulationEnabled(phone),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
		chromedp.Navigate("about:blank"), chromedp.Navigate(url))
}

// shot saves a screenshot.
func (b *browser) shot(name string) {
	if b.shots == "" || b.err != nil {
		return
	}
	var png []byte
	b.run(chromedp.Sleep(250*time.Millisecond), chromedp.CaptureScreenshot(&png))
	b.fail(os.WriteFile(filepath.Join(b.shots, name+".png"), png, 0o644))
}

// eval returns the value of a JavaScript expression.
func eval[T any](b *browser, js string) (v T, err error) {
	err = chromedp.Run(b.ctx, chromedp.Evaluate(js, &v))
	return v, err
}

// until waits until a JavaScript expression is true, and prints what the expression checks.
func (b *browser) until(what, js string) {
	if b.wait(what, js); b.err == nil {
		fmt.Println("ok:", what)
	}
}

// wait waits until a JavaScript expression is true. The parameter "what" says in words what the
// expression checks.
func (b *browser) wait(what, js string) {
	if b.err != nil {
		return
	}
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		ok, err := eval[bool](b, "!!("+js+")")
		if ok {
			return
		}
		if time.Now().After(end) {
			b.shot("failed")
			text, _ := eval[string](b, "document.body.innerText")
			b.fail(fmt.Errorf("not within %v: %s (%v); the page shows:\n%s", patience, what, err, text))
			return
		}
	}
}

// has waits until an element contains a text.
func (b *browser) has(what, id, text string) {
	b.until(what, fmt.Sprintf("document.getElementById(%q)?.textContent.includes(%q)", id, text))
}

// click clicks the elements with the given ids, one after another, as a mouse does. The page may
// replace an element at any time. click therefore asks where the element is, and clicks that place.
func (b *browser) click(ids ...string) {
	for _, id := range ids {
		b.wait("there is a "+id, fmt.Sprintf("document.getElementById(%q)", id))
		b.clickAt(fmt.Sprintf(`(() => {
			const e = document.getElementById(%q);
			e.scrollIntoView({block: "nearest"});
			const r = e.getBoundingClientRect();
			return [r.left + r.width / 2, r.top + r.height / 2];
		})()`, id))
	}
}

// clickMap clicks the place that an expression of the page's test object gives, such as chip('M0D5').
func (b *browser) clickMap(call string, opts ...chromedp.MouseOption) {
	b.clickAt("window.ttfabric."+call, opts...)
}

// still is the time for which an element must stay in its place before a click. When the page shows
// a new state of the fabric, elements may move.
const still = 150 * time.Millisecond

// clickAt clicks the place [x, y] that a JavaScript expression gives, when the place stands still.
func (b *browser) clickAt(js string, opts ...chromedp.MouseOption) {
	if b.err != nil {
		return
	}
	var at [2]float64
	for end := time.Now().Add(patience); ; time.Sleep(still) {
		now, err := eval[[2]float64](b, js)
		if err != nil {
			b.fail(fmt.Errorf("click at %s: %w", js, err))
			return
		}
		if now == at || time.Now().After(end) {
			break
		}
		at = now
	}
	b.run(chromedp.MouseClickXY(at[0], at[1], opts...))
}

// keys presses keys on the map.
func (b *browser) keys(keys string) {
	b.run(chromedp.Focus("#map", chromedp.ByQuery), chromedp.KeyEvent(keys))
}

// fillIn replaces the text of a field, as a keyboard does.
func (b *browser) fillIn(id, text string) {
	b.click(id)
	b.run(chromedp.Evaluate(fmt.Sprintf("document.getElementById(%q).select()", id), nil), chromedp.KeyEvent(text))
}

// option chooses the option of a list whose text begins with the given letter, as a keyboard does.
func (b *browser) option(id, letter string) {
	b.run(chromedp.Focus("#"+id, chromedp.ByQuery), chromedp.KeyEvent(letter))
}

// withShift holds the key Shift during a click.
var withShift = chromedp.ButtonModifiers(input.ModifierShift)
