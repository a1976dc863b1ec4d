package walk

import (
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/planekit/planekit/compat/pair"
)

// prepare makes the objects of the walk on both servers.
func prepare(t *testing.T, kinds map[string]pair.Operation, sides ...*pair.Side) {
	t.Helper()
	for _, o := range pair.Objects {
		post, ok := kinds[o.Path]
		if !ok {
			t.Errorf("kube-apiserver describes no POST %s", o.Path)
			continue
		}
		body, err := json.Marshal(o.Content(post.APIVersion, post.Kind, o.Label()))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range sides {
			r := pair.Request{Method: "POST", Path: o.Path, ContentType: "application/json", Accept: "application/json", Body: body}
			if got := s.Send(t, r); got.Code != 201 {
				t.Errorf("%.100s at %s = %d %.500s, want 201", r.String(), s.Name, got.Code, got.Body)
			}
		}
	}
}

// group holds differences of one kind.
type group struct {
	count   int
	example string
}

// walker sends requests to both servers and collects how the responses differ.
type walker struct {
	t            *testing.T
	theirs, ours *pair.Side

	mu     sync.Mutex
	sent   int
	groups map[string]*group
}

func (w *walker) send(r pair.Request) {
	if w.skips(r) {
		return
	}
	want, got := w.theirs.Send(w.t, r), w.ours.Send(w.t, r)
	w.compare(r, want, got)
}

// skips reports whether r is outside of the part that is walked.
func (w *walker) skips(r pair.Request) bool {
	if *only != "" && !regexp.MustCompile(*only).MatchString(r.String()) {
		return true
	}
	h := fnv.New32a()
	fmt.Fprint(h, *seed, r)
	return h.Sum32()%uint32(*part) != 0
}

func (w *walker) compare(r pair.Request, want, got pair.Answer) {
	found := pair.Differences(aspectsOf(r, want), aspectsOf(r, got))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent++
	for _, d := range found {
		if allowances.Allow(r, d) || !*everything && !strict(d.Aspect) {
			continue
		}
		key := names.ReplaceAllString(fmt.Sprintf("%s of %s = %.200s, want %.200s", d.Aspect, r.Method, d.Got, d.Want), "…")
		g := w.groups[key]
		if g == nil {
			g = &group{example: r.String()}
			if *only != "" {
				g.example += fmt.Sprintf("\n  %.1500s\n  is answered %d %.1000s\n  want %d %.1000s", r.Body, got.Code, got.Body, want.Code, want.Body)
			}
			w.groups[key] = g
		}
		g.count++
	}
}

var (
	part       = flag.Int("part", 60, "send one of this many requests")
	seed       = flag.Int("seed", 1, "which ones")
	everything = flag.Bool("all", false, "compare messages and contents too")
	only       = flag.String("only", "", "regular expression: send the requests that match, and show bodies")
	programs   = flag.String("programs", "", "directory of kube-apiserver and etcd; they are built if it is empty")
)

// names match text that differs between requests that fail in the same way.
var names = regexp.MustCompile(`\\?"[^"]*"|/[a-z0-9./-]*[a-z]|[0-9]{4,}`)

func TestWalk(t *testing.T) { walk(t, pair.Reference(t, *programs), pair.Planekit(t)) }

func walk(t *testing.T, theirs, ours *pair.Side) {
	t.Helper()
	operations := theirs.Operations(t)
	kinds := map[string]pair.Operation{}
	all := places(operations)
	for _, p := range all {
		if post, ok := p.operations["POST"]; ok {
			kinds[p.path] = post
		}
	}
	prepare(t, kinds, theirs, ours)
	w := &walker{t: t, theirs: theirs, ours: ours, groups: map[string]*group{}}
	start := time.Now()
	var wait sync.WaitGroup
	slots := make(chan struct{}, 200)
	list := reads(all)
	t.Logf("%d operations, %d places, %d reads", len(operations), len(all), len(list))
	for _, r := range list {
		if w.skips(r) {
			continue
		}
		slots <- struct{}{}
		wait.Go(func() { defer func() { <-slots }(); w.send(r) })
	}
	wait.Wait()
	t.Logf("%d requests in %v", w.sent, time.Since(start))
	for _, p := range all {
		w.writes(p)
	}
	t.Logf("%d requests in %v", w.sent, time.Since(start))
	var lines []string
	for key, g := range w.groups {
		lines = append(lines, fmt.Sprintf("%d times: %s\n  such as %s", g.count, key, g.example))
	}
	// Codes and headers come first, before the parts of a body, which begin with a dot.
	slices.SortFunc(lines, func(a, b string) int {
		_, x, _ := strings.Cut(a, " times: ")
		_, y, _ := strings.Cut(b, " times: ")
		return strings.Compare(y, x)
	})
	const most = 200
	for _, line := range lines[:min(len(lines), most)] {
		t.Error(line)
	}
	if len(lines) > most {
		t.Errorf("%d further kinds of differences are not shown, want none", len(lines)-most)
	}
	if *part == 1 {
		allowances.Used(t)
	}
}
