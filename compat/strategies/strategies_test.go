package strategies

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/planekit/planekit/compat/pair"
)

var (
	limit    = flag.Int("limit", 8, "try at most this many changes of each sort of each kind; 0 for all")
	seed     = flag.Uint64("seed", 1, "which ones")
	only     = flag.String("kinds", "", "try kinds that match this expression alone")
	lines    = flag.Int("lines", 200, "print at most this many differences")
	programs = flag.String("programs", "", "directory of kube-apiserver and etcd; they are built if it is empty")
)

const (
	jsonType = "application/json"
	dryRun   = "dryRun=All&fieldManager=strategies"
)

// group holds differences of one sort.
type group struct {
	count   int
	kinds   map[string]bool
	example string
}

// run holds what is common to all requests.
type run struct {
	t            *testing.T
	model        model
	theirs, ours *pair.Side

	mu     sync.Mutex
	sent   int
	codes  map[int]int
	groups map[string]*group
}

func TestStrategies(t *testing.T) {
	theirs, ours := pair.Reference(t, *programs), pair.Planekit(t)
	r := &run{t: t, model: newModel(t, theirs), theirs: theirs, ours: ours, codes: map[int]int{}, groups: map[string]*group{}}
	operations := theirs.Operations(t)
	r.prepare(operations)
	r.ranges()
	start := time.Now()
	all := targets(r.model, operations, ours.Operations(t))
	var wait sync.WaitGroup
	slots := make(chan struct{}, 8)
	kinds := map[string]bool{}
	for _, target := range all {
		if !regexp.MustCompile(*only).MatchString(target.path + " " + target.kind) {
			continue
		}
		kinds[target.apiVersion+" "+target.kind] = true
		slots <- struct{}{}
		wait.Go(func() { defer func() { <-slots }(); r.target(target) })
	}
	wait.Wait()
	t.Logf("%d kinds, %d requests in %v, codes %v", len(kinds), r.sent, time.Since(start), r.codes)
	r.report()
	if *limit == 0 && *only == "" {
		allowances.Used(t)
	}
}

// prepare creates the objects that others refer to and that are updated.
func (r *run) prepare(operations []pair.Operation) {
	for _, o := range pair.Objects {
		i := slices.IndexFunc(operations, func(p pair.Operation) bool {
			return p.Method == "POST" && strings.Replace(p.Path, "{namespace}", pair.Namespace, 1) == o.Path
		})
		if i < 0 {
			r.t.Errorf("kube-apiserver describes no POST %s", o.Path)
			continue
		}
		body := encoded(o.Content(operations[i].APIVersion, operations[i].Kind, o.Label()))
		for _, s := range []*pair.Side{r.theirs, r.ours} {
			q := pair.Request{Method: "POST", Path: o.Path, ContentType: jsonType, Accept: jsonType, Body: body}
			if got := s.Send(r.t, q); got.Code != 201 {
				r.t.Errorf("%.100s at %s = %d %.500s, want 201", q.String(), s.Name, got.Code, got.Body)
			}
		}
	}
}

// ranges waits until services get addresses of each range, which kube-apiserver takes into use one by one.
func (r *run) ranges() {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for _, s := range []*pair.Side{r.theirs, r.ours} {
		for _, address := range []string{"10.0.0.7", "198.51.100.7"} {
			q := pair.Request{Method: "POST", Path: "/api/v1/namespaces/walk/services", Query: dryRun, ContentType: jsonType, Accept: jsonType,
				Body: []byte(`{"metadata":{"name":"address"},"spec":{"clusterIP":"` + address + `","ports":[{"port":80}]}}`)}
			for start := time.Now(); ; {
				got := s.Send(r.t, q)
				if got.Code == 201 {
					break
				}
				if time.Since(start) > time.Minute {
					r.t.Fatalf("%v at %s = %d %.300s after a minute, want 201", q, s.Name, got.Code, got.Body)
				}
				<-tick.C
			}
		}
	}
}

// pause lets a tenth of a second pass.
func (r *run) pause() {
	timer := time.NewTimer(100 * time.Millisecond)
	defer timer.Stop()
	<-timer.C
}

func encoded(object map[string]any) []byte {
	data, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return data
}

// target tries all of one target.
func (r *run) target(t target) {
	if t.method == "POST" {
		base := t.base()
		for _, c := range t.trials(r.model, base, *seed, *limit) {
			if c.stored {
				r.stored(c, base)
				continue
			}
			q := pair.Request{Method: "POST", Path: t.path, Query: dryRun, Body: encoded(c.object(r.model, base))}
			r.send(c, q, q)
		}
		return
	}
	path := strings.TrimSuffix(t.path, "/finalize") // which cannot be read
	theirs, ours := r.now(r.theirs, path), r.now(r.ours, path)
	for _, c := range t.trials(r.model, theirs, *seed, *limit) {
		r.update(c, t.path, dryRun, theirs, ours)
	}
}

// update sends an update of what each server has.
func (r *run) update(c trial, path, query string, theirs, ours map[string]any) {
	q := pair.Request{Method: "PUT", Path: path, Query: query}
	p := q
	q.Body, p.Body = encoded(c.object(r.model, theirs)), encoded(c.object(r.model, ours))
	r.send(c, q, p)
}

// now returns the object at a path as a server has it.
func (r *run) now(s *pair.Side, path string) map[string]any {
	got := s.Send(r.t, pair.Request{Method: "GET", Path: path, Accept: jsonType})
	var object map[string]any
	if err := json.Unmarshal(got.Body, &object); got.Code != 200 || err != nil {
		r.t.Errorf("GET %s of %s = %d, %v, want 200 and an object", path, s.Name, got.Code, err)
		return map[string]any{}
	}
	return object
}

// stored creates an object with the change, reads it, updates it without and deletes it.
func (r *run) stored(c trial, base map[string]any) {
	q := pair.Request{Method: "POST", Path: c.target.path, Query: "fieldManager=strategies", Body: encoded(c.object(r.model, base))}
	want, got := r.send(c, q, q)
	if want.Code != 201 && got.Code != 201 {
		return
	}
	q = pair.Request{Method: "GET", Path: c.target.path + "/" + c.target.name}
	if want.Code == 201 && got.Code == 201 {
		r.send(c, q, q)
		undone, theirs, ours := c, r.now(r.theirs, q.Path), r.now(r.ours, q.Path)
		undone.changes = []change{{field: c.changes[0].field, remove: true}}
		// This name sorts behind the one above, so that it makes no difference whether a second has passed: owners are
		// sorted by their seconds, and then by name.
		r.update(undone, q.Path, "fieldManager=undo", theirs, ours)
	}
	q = pair.Request{Method: "DELETE", Path: q.Path, Query: "gracePeriodSeconds=0&propagationPolicy=Background"}
	r.send(c, q, q)
	for _, s := range []*pair.Side{r.theirs, r.ours} { // it may be kept by a finalizer
		left := s.Send(r.t, pair.Request{Method: "GET", Path: q.Path, Accept: jsonType})
		if left.Code == 200 {
			freed := pair.Request{Method: "PATCH", Path: q.Path, ContentType: "application/merge-patch+json", Accept: jsonType, Body: []byte(`{"metadata":{"finalizers":null}}`)}
			if got := s.Send(r.t, freed); got.Code != 200 {
				r.t.Errorf("%v at %s = %d %.300s, want 200", freed, s.Name, got.Code, got.Body)
			}
			s.Send(r.t, q)
		}
	}
}

// send sends a request to both servers and compares.
func (r *run) send(c trial, theirs, ours pair.Request) (want, got pair.Answer) {
	for _, q := range []*pair.Request{&theirs, &ours} {
		q.Accept = jsonType
		if len(q.Body) > 0 {
			q.ContentType = jsonType
		}
	}
	want = r.theirs.Send(r.t, theirs)
	for range 50 { // kube-apiserver takes its ranges into use again after a change of one of them
		if !strings.Contains(string(want.Body), "(10.0.0.7) is not in the valid range") {
			break
		}
		r.pause()
		want = r.theirs.Send(r.t, theirs)
	}
	got = r.ours.Send(r.t, ours)
	found := differencesOf(ours, theirs, want, got)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent++
	r.codes[want.Code]++
	about := theirs
	about.About = c.target.kind + ": " + c.String()
	for _, d := range found {
		if allowances.Allow(about, d) {
			continue
		}
		key := vary.ReplaceAllString(fmt.Sprintf("%s = %.700s, want %.700s", d.Aspect, d.Got, d.Want), "…")
		g := r.groups[key]
		if g == nil {
			g = &group{example: fmt.Sprintf("%v\n  %s = %.700s, want %.700s", about, d.Aspect, d.Got, d.Want), kinds: map[string]bool{}}
			r.groups[key] = g
		}
		g.count++
		g.kinds[c.target.kind] = true
	}
	return want, got
}

// vary matches text that differs between requests that fail in the same way.
var vary = regexp.MustCompile(`(?s)(Invalid|Unsupported|Duplicate) value: (\{.*\}|\[.*\]|null)|\\?"[^"]*"|cause of [^ ]*:| (spec|template|jobTemplate|metadata|status)[][a-zA-Z.0-9]*|-?[0-9]+|x{9,}`)

// report lists the differences, the most common first.
func (r *run) report() {
	all := make([]*group, 0, len(r.groups))
	for _, g := range r.groups {
		all = append(all, g)
	}
	slices.SortFunc(all, func(a, b *group) int { return cmp.Or(b.count-a.count, strings.Compare(a.example, b.example)) })
	for _, g := range all[:min(len(all), *lines)] {
		r.t.Errorf("%d times, in %q: %s", g.count, slices.Sorted(maps.Keys(g.kinds)), g.example)
	}
	if len(all) > *lines {
		r.t.Errorf("and %d others", len(all)-*lines)
	}
}
