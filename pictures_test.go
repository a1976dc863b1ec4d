package planekit_test

import (
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the pictures of the documents")

// TestPictures checks that docs/rooms.svg shows today's packages and imports, and that
// docs/path.svg shows the steps below, each of which names something that exists.
func TestPictures(t *testing.T) {
	for name, want := range map[string]string{"docs/rooms.svg": drawRooms(t), "docs/path.svg": drawPath(t)} {
		have, err := os.ReadFile(name)
		if *update {
			err = os.WriteFile(name, []byte(want), 0o644)
		} else if string(have) != want {
			t.Errorf("%s is not what the code says: run this test with -update", name)
		}
		if err != nil {
			t.Error(err)
		}
	}
}

// step is one step of a pod's path: a package, a symbol of it, and what happens there.
type step struct{ pkg, symbol, what string }

// podPath is the path of the first pod of kubectl run nginx --image=nginx --replicas=3.
var podPath = []step{
	{"client/generators", "Run", "makes a Deployment of the flags"},
	{"client", "Resource.Create", "posts it over TLS"},
	{"apiserver", "Server.ServeHTTP", "reads verb and resource off the path"},
	{"authn", "Chain.Authenticate", "who is asking?"},
	{"apiserver/flowcontrol", "Controller.Enter", "waits for a free seat"},
	{"authz", "Chain.Authorize", "may they?"},
	{"apiserver/kube", "ResourcesFor", "defaults and validates it"},
	{"admission", "Chain.Mutate", "completes it, then: should this happen?"},
	{"storage", "Store.Commit", "puts it in one transaction"},
	{"storage/cache", "Feed.Run", "decodes it once, wakes all watches"},
	{"informer", "Informer.Run", "updates the local cache, queues the key"},
	{"reconcile/controllers/deployment", "Controller", "creates a ReplicaSet"},
	{"reconcile/controllers/replicaset", "Controller", "creates the pods"},
	{"schedule", "State.Decide", "chooses a node, posts a Binding"},
	{"kubelet/internal/lifecycle", "Plan", "compares the pod with what runs"},
	{"kubelet", "Sandboxes.RunPodSandbox", "has the runtime make a sandbox"},
	{"cni", "Invoker.Add", "gives it an address and routes"},
	{"kubelet", "PodStatus", "starts containers, reports status"},
}

func drawPath(t *testing.T) string {
	const columns, width, height, gap, margin = 3, 268, 74, 34, 16
	at := func(i int) box {
		row, column := i/columns, i%columns
		if row%2 == 1 {
			column = columns - 1 - column
		}
		return box{margin + column*(width+gap), margin + row*(height+gap), width, height}
	}
	rows := (len(podPath) + columns - 1) / columns
	p := newPicture("The path of one pod", 2*margin+columns*(width+gap)-gap, 2*margin+rows*(height+gap)-gap)
	for i, s := range podPath {
		if !symbols(t, s.pkg)[s.symbol] {
			t.Errorf("package %s has no %s", s.pkg, s.symbol)
		}
		b := at(i)
		p.box(b)
		p.text(b.x+12, b.y+24, "name", fmt.Sprintf("%d  %s", i+1, s.pkg))
		p.text(b.x+12, b.y+43, "", s.what)
		p.text(b.x+12, b.y+61, "code", s.symbol)
		if i > 0 {
			p.arrow(at(i-1), b)
		}
	}
	return p.end()
}

// room is where a room stands in its picture, and its question.
type room struct {
	row, column int
	question    string
}

var rooms = map[string]room{
	"apiserver": {0, 0, "the HTTP door"},
	"authn":     {1, 0, "who is asking"},
	"authz":     {1, 1, "may they"},
	"admission": {1, 2, "should this happen"},
	"storage":   {1, 3, "what is remembered"},
	"client":    {2, 0, "the other side"},
	"schedule":  {2, 1, "where a pod runs"},
	"informer":  {2, 2, "a local cache"},
	"reconcile": {2, 3, "making it so"},
	"kubelet":   {3, 0, "pods on a node"},
	"cni":       {3, 1, "the pod network"},
	"pki":       {3, 2, "certificates"},

	"metricsapi": {3, 3, "what is used"},
	"service":    {4, 0, "a name leads to a pod"},
}

// shared are the packages that rooms import without knowing each other.
var shared = []string{"kinds", "localcache", "authn/user"}

// drawRooms draws each room with its packages and an arrow to each room that it imports.
func drawRooms(t *testing.T) string {
	const width, gap, margin, line = 206, 34, 16, 16
	packages := publicPackages(t)
	importers, arrows := roomImports(t)
	lines := map[string][]string{}
	var joined []string // the packages of plane
	heights := make([]int, 5)
	for _, pkg := range packages {
		name, below, ok := strings.Cut(pkg, "/")
		if name == "plane" && ok {
			joined = append(joined, below)
		}
		if name == "examples" || name == "plane" || slices.Contains(shared, name) || slices.Contains(shared, pkg) {
			continue
		}
		r, known := rooms[name]
		if !known {
			t.Errorf("%s is no room of the picture", name)
		}
		if ok {
			lines[name] = wrap(lines[name], below, (spans(name)*(width+gap)-gap-24)*3/20)
		}
		heights[r.row] = max(heights[r.row], 54+line*len(lines[name]))
	}
	tops, full := []int{margin + 148}, 4*(width+gap)-gap
	for _, h := range heights {
		tops = append(tops, tops[len(tops)-1]+h+gap)
	}
	p := newPicture("The rooms of planekit and their imports", 2*margin+full, tops[len(heights)]+78)
	wide := func(y int, name, what string) {
		p.box(box{margin, y, full, 52})
		p.text(margin+12, y+22, "name", name)
		p.text(margin+12, y+40, "code", what)
	}
	wide(margin, "examples: programs", strings.Join(examples(packages), "  "))
	wide(margin+70, "plane: where the rooms meet", strings.Join(joined, "  "))
	place := func(name string) box {
		r := rooms[name]
		return box{margin + r.column*(width+gap), tops[r.row], spans(name)*(width+gap) - gap, heights[r.row]}
	}
	for _, name := range slices.Sorted(maps.Keys(rooms)) {
		b := place(name)
		p.box(b)
		p.text(b.x+12, b.y+22, "name", name)
		p.text(b.x+12, b.y+40, "", rooms[name].question)
		for i, l := range lines[name] {
			p.text(b.x+12, b.y+60+line*i, "code", l)
		}
	}
	p.text(margin+3*(width+gap)+12, margin+140, "", "An arrow: imports")
	for _, a := range arrows {
		p.arrow(place(a[0]), place(a[1]))
	}
	wide(tops[len(heights)], strings.Join(shared, ", ")+": what rooms share", "imported by "+strings.Join(importers, "  "))
	return p.end()
}

// roomImports returns the rooms that import what is shared, and the other imports between rooms.
func roomImports(t *testing.T) (importers []string, arrows [][2]string) {
	all, _ := imports(t)
	of := func(pkg string) string { name, _, _ := strings.Cut(pkg, "/"); return name }
	for pkg, imported := range all {
		for other := range imported {
			_, from := rooms[of(pkg)]
			_, to := rooms[of(other)]
			switch {
			case !from || of(pkg) == of(other):
			case slices.Contains(shared, other):
				importers = append(importers, of(pkg))
			case to:
				arrows = append(arrows, [2]string{of(pkg), of(other)})
			}
		}
	}
	slices.Sort(importers)
	slices.SortFunc(arrows, func(a, b [2]string) int { return strings.Compare(a[0]+" "+a[1], b[0]+" "+b[1]) })
	return slices.Compact(importers), slices.Compact(arrows)
}

// publicPackages returns the packages of the module that others may import, and the programs.
func publicPackages(t *testing.T) []string {
	t.Helper()
	return packagesExcept(t, "bench", "compat", "bin", "internal", "testdata")
}

// packagesExcept returns the folders of all packages but those below folders of the given names.
func packagesExcept(t *testing.T, skip ...string) (packages []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		name := entry.Name()
		if slices.Contains(skip, name) || name != "." && strings.HasPrefix(name, ".") {
			return filepath.SkipDir
		}
		sources, err := filepath.Glob(filepath.Join(file, "*.go"))
		sources = slices.DeleteFunc(sources, func(s string) bool { return strings.HasSuffix(s, "_test.go") })
		if file != "." && len(sources) > 0 {
			packages = append(packages, filepath.ToSlash(file))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return packages
}

func examples(packages []string) (names []string) {
	for _, pkg := range packages {
		if dir, name := path.Split(pkg); dir == "examples/" {
			names = append(names, name)
		}
	}
	return names
}

// spans returns how many columns a room takes: apiserver stands on the rooms that it composes.
func spans(name string) int {
	if name == "apiserver" {
		return 4
	}
	return 1
}

// wrap adds a name to the last of the lines, or to a new one where that would be longer than most.
func wrap(lines []string, name string, most int) []string {
	if last := len(lines) - 1; last >= 0 && len(lines[last])+2+len(name) <= most {
		lines[last] += "  " + name
		return lines
	}
	return append(lines, name)
}

// box is a rectangle, in pixels.
type box struct{ x, y, w, h int }

// picture is an SVG in the making, in colours for light and dark.
type picture struct{ strings.Builder }

func newPicture(title string, width, height int) *picture {
	p := &picture{}
	fmt.Fprintf(p, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">
<title>%s</title>
<style>
text { font: 12px sans-serif; fill: #1f2328 }
.name { font-weight: bold; font-size: 14px }
.code { font-family: monospace; font-size: 11px; fill: #59636e }
.page { fill: #ffffff }
.box { fill: #f6f8fa; stroke: #8c959f }
.arrow { stroke: #0969da; stroke-width: 1.5 }
.head { fill: #0969da }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.code { fill: #9198a1 }
.page { fill: #0d1117 }
.box { fill: #161b22; stroke: #6e7681 }
.arrow { stroke: #4493f8 }
.head { fill: #4493f8 }
}
</style>
<defs><marker id="head" markerWidth="9" markerHeight="8" refX="8" refY="4" orient="auto"><path class="head" d="M0,0 L9,4 L0,8 z"/></marker></defs>
<rect class="page" width="%d" height="%d"/>
`, width, height, width, height, title, width, height)
	return p
}

func (p *picture) box(b box) {
	fmt.Fprintf(p, `<rect class="box" x="%d" y="%d" width="%d" height="%d" rx="6"/>`+"\n", b.x, b.y, b.w, b.h)
}

func (p *picture) text(x, y int, class, text string) {
	fmt.Fprintf(p, `<text class="%s" x="%d" y="%d" xml:space="preserve">%s</text>`+"\n", class, x, y, text)
}

// arrow goes from the side of one box to the side of another that is next to it.
func (p *picture) arrow(from, to box) {
	x1, y1, x2, y2 := from.x, from.y+from.h/2, to.x+to.w, to.y+to.h/2 // to the left
	switch x := to.x + to.w/2; {
	case to.y >= from.y+from.h: // down
		x1, y1, x2, y2 = min(max(x, from.x+12), from.x+from.w-12), from.y+from.h, x, to.y
	case from.y >= to.y+to.h: // up
		x1, y1, x2, y2 = min(max(x, from.x+12), from.x+from.w-12), from.y, x, to.y+to.h
	case to.x > from.x: // to the right
		x1, x2 = from.x+from.w, to.x
	}
	fmt.Fprintf(p, `<line class="arrow" x1="%d" y1="%d" x2="%d" y2="%d" marker-end="url(#head)"/>`+"\n", x1, y1, x2, y2)
}

func (p *picture) end() string { return p.String() + "</svg>\n" }
