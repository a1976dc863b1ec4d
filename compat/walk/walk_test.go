package walk

import (
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"
)

// prepare makes the objects of the walk on both servers.
func prepare(t *testing.T, kinds map[string]operation, sides ...*side) {
	t.Helper()
	for _, o := range objects {
		post, ok := kinds[o.path]
		if !ok {
			t.Errorf("kube-apiserver describes no POST %s", o.path)
			continue
		}
		body, err := json.Marshal(o.content(post.apiVersion, post.kind, o.label()))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range sides {
			r := request{method: "POST", path: o.path, contentType: "application/json", accept: "application/json", body: body}
			if got := s.send(t, r); got.code != 201 {
				t.Errorf("%.100s at %s = %d %.500s, want 201", r.String(), s.name, got.code, got.body)
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
	theirs, ours *side

	mu     sync.Mutex
	sent   int
	groups map[string]*group
}

func (w *walker) send(r request) {
	if w.skips(r) {
		return
	}
	want, got := w.theirs.send(w.t, r), w.ours.send(w.t, r)
	w.compare(r, want, got)
}

// skips reports whether r is outside of the part that is walked.
func (w *walker) skips(r request) bool {
	if *only != "" && !regexp.MustCompile(*only).MatchString(r.String()) {
		return true
	}
	h := fnv.New32a()
	fmt.Fprint(h, *seed, r)
	return h.Sum32()%uint32(*part) != 0
}

func (w *walker) compare(r request, want, got answer) {
	found := differences(aspectsOf(r, want), aspectsOf(r, got))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent++
	for _, d := range found {
		if allow(r, d) || !*everything && !strict(d.aspect) {
			continue
		}
		key := names.ReplaceAllString(fmt.Sprintf("%s of %s = %.200s, want %.200s", d.aspect, r.method, d.got, d.want), "…")
		g := w.groups[key]
		if g == nil {
			g = &group{example: r.String()}
			if *only != "" {
				g.example += fmt.Sprintf("\n  %.1500s\n  is answered %d %.1000s\n  want %d %.1000s", r.body, got.code, got.body, want.code, want.body)
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

func TestWalk(t *testing.T) { walk(t, reference(t), planekit(t)) }

func walk(t *testing.T, theirs, ours *side) {
	t.Helper()
	operations := theirs.operations(t)
	kinds := map[string]operation{}
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
	slices.Sort(lines)
	for _, line := range lines[:min(len(lines), 200)] {
		t.Error(line)
	}
	for _, a := range allowances {
		if a.count == 0 && *part == 1 {
			t.Errorf("no difference is that of the row %q of COMPATIBILITY.md for %v, want one", a.row, a.request)
		}
	}
}
