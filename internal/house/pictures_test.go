package house

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the pictures of the documents")

// pictures returns the pictures of the documents by their files.
func pictures(t *testing.T) map[string]*picture {
	return map[string]*picture{"docs/rooms.svg": drawRooms(t), "docs/path.svg": drawPath(t)}
}

// TestPictures checks that docs/rooms.svg shows today's rooms and imports, and that docs/path.svg
// shows the steps below, each of which names something that exists.
func TestPictures(t *testing.T) {
	for name, p := range pictures(t) {
		have, err := os.ReadFile(name)
		if *update {
			err = os.WriteFile(name, []byte(p.svg(lightAndDark)), 0o644)
		} else if string(have) != p.svg(lightAndDark) {
			t.Errorf("%s is not what the code says: run this test with -update", name)
		}
		if err != nil {
			t.Error(err)
		}
	}
}

// The pictures fill one screen, with the command on top. What happens first is on the left.
const (
	pictureWidth, pictureHeight, pictureMargin = 1200, 700, 24

	command = "planectl run nginx --image=nginx --replicas=3"
)

// step is one step of a pod's path: a package, a symbol of it, and what happens there.
type step struct{ pkg, symbol, what string }

// podPath is the path of the first pod of command, in parts that follow each other.
var podPath = []struct {
	part  string
	steps []step
}{
	{"the command", []step{
		{"client/generators", "Run", "makes a Deployment of the flags"},
		{"client", "Resource.Create", "posts it over TLS"},
	}},
	{"the door", []step{
		{"apiserver", "Server.ServeHTTP", "reads verb and resource off the path"},
		{"authn", "Chain.Authenticate", "who is asking?"},
		{"apiserver/flowcontrol", "Controller.Enter", "waits for a free seat"},
		{"authz", "Chain.Authorize", "may they?"},
	}},
	{"the write", []step{
		{"apiserver/kube", "ResourcesFor", "defaults, validates"},
		{"admission", "Chain.Mutate", "completes it; should this happen?"},
		{"storage", "Store.Commit", "puts it in one transaction"},
		{"storage/cache", "Feed.Run", "decodes it once, wakes all watches"},
	}},
	{"the loops", []step{
		{"informer", "Informer.Run", "updates the local cache, queues the key"},
		{"reconcile/controllers/deployment", "Controller", "creates a ReplicaSet"},
		{"reconcile/controllers/replicaset", "Controller", "creates the pods"},
		{"schedule", "State.Decide", "chooses a node, posts a Binding"},
	}},
	{"the node", []step{
		{"kubelet/internal/lifecycle", "Plan", "compares the pod with what runs"},
		{"kubelet", "Sandboxes.RunPodSandbox", "has the runtime make a sandbox"},
		{"cni", "Invoker.Add", "gives it an address and routes"},
		{"kubelet", "PodStatus", "starts containers, reports status"},
	}},
}

func drawPath(t *testing.T) *picture {
	const gap, top, height, between = 36, 104, 128, 18
	width := (pictureWidth - 2*pictureMargin - (len(podPath)-1)*gap) / len(podPath)
	p := &picture{title: "The path of one pod"}
	p.text(box{pictureMargin, 16, pictureWidth - 2*pictureMargin, 36}, 0, 25, "command", command)
	number, last := 0, box{}
	for column, part := range podPath {
		x := pictureMargin + column*(width+gap)
		p.text(box{x, 62, width, 36}, 0, 26, "name", part.part)
		for row, s := range part.steps {
			if !symbols(t, s.pkg)[s.symbol] {
				t.Errorf("package %s has no %s", s.pkg, s.symbol)
			}
			b := box{x, top + row*(height+between), width, height}
			p.box(b)
			number++
			p.text(b, 12, 25, "step", fmt.Sprintf("%d %s", number, path.Base(s.pkg)))
			for i, line := range wrap(s.what, " ", 22) {
				p.text(b, 12, 46+17*i, "what", line)
			}
			for i, line := range append(wrap(s.pkg, "/", 24), s.symbol) {
				p.text(b, 12, 84+15*i, "code", line)
			}
			if number > 1 {
				p.arrow(last, b)
			}
			last = b
		}
	}
	return p
}

// room is a box of a column: a name and its purpose. The way of a pod leads through the rooms with story.
type room struct {
	name, question string
	story          bool
}

// door is the room that has a column of rooms in it. It imports these and no other ones.
const door = "apiserver"

// rooms are columns, whose rooms follow each other from top to bottom.
var rooms = [][]room{
	{{"client", "the other side", true}, {"pki", "certificates", false}},
	{{"authn", "who is asking", true}, {"authz", "may they", true}, {"admission", "should this happen", true}, {"storage", "what is remembered", true}},
	{{"informer", "a local cache", true}, {"reconcile", "making it so", true}, {"schedule", "where a pod runs", true}},
	{{"kubelet", "pods on a node", true}, {"cni", "the pod network", true}, {"service", "a name leads to a pod", true}, {"metricsapi", "what is used", false}},
}

// shared are the packages that rooms import without knowing each other.
var shared = []string{"kinds", "localcache", "authn/user"}

// isRoom reports whether it is the name of a room.
func isRoom(name string) bool {
	return name == door || slices.ContainsFunc(rooms, func(column []room) bool {
		return slices.ContainsFunc(column, func(r room) bool { return r.name == name })
	})
}

// drawRooms draws each room with the rooms that it imports, and the way of a pod.
func drawRooms(t *testing.T) *picture {
	const gap, top, height, frame = 56, 68, 92, 14
	width := (pictureWidth - 2*pictureMargin - (len(rooms)-1)*gap) / len(rooms)
	imported := roomImports(t)
	p := &picture{title: "The rooms of planekit"}
	p.text(box{pictureMargin, 16, pictureWidth - 2*pictureMargin, 36}, 0, 25, "command", command)
	var last box
	for column, list := range rooms {
		x, begin, between := pictureMargin+column*(width+gap), top, 34
		inside := slices.Equal(imported[door], names(list))
		if inside {
			f := box{x - frame, top, width + 2*frame, 492}
			p.box(f)
			title := box{f.x, f.y, f.w, 48}
			p.text(title, frame, 32, "name", door)
			p.text(title, frame+138, 31, "", "the HTTP door")
			begin, between = top+48, 20
		}
		for row, r := range list {
			b := box{x, begin + row*(height+between), width, height}
			p.box(b)
			p.text(b, 12, 31, "name", r.name)
			p.text(b, 12, 55, "", r.question)
			if others := imported[r.name]; len(others) > 0 {
				p.text(b, 12, 79, "code", "imports "+strings.Join(others, ", "))
			}
			if r.story && last != (box{}) {
				p.arrow(last, b)
			}
			if r.story {
				last = b
			}
		}
		if inside {
			delete(imported, door)
		}
	}
	if imported[door] != nil {
		t.Errorf("%s imports %v, and no column of the picture has these rooms", door, imported[door])
	}
	programs := []string{"cluster", "planectl", "embed"}
	packages := publicPackages(t)
	for _, program := range programs {
		if !slices.Contains(packages, "examples/"+program) {
			t.Errorf("examples has no %s", program)
		}
	}
	for _, pkg := range packages {
		name, _, _ := strings.Cut(pkg, "/")
		if name != "examples" && name != "plane" && !isRoom(name) && !slices.Contains(shared, name) {
			t.Errorf("%s is no room of the picture", name)
		}
	}
	third := (pictureWidth - 2*pictureMargin - 2*gap/2) / 3
	for i, band := range []struct{ name, what, code string }{
		{"plane", "where the rooms meet", "a control plane, or parts of one"},
		{"examples", "programs", strings.Join(programs, ", ") + ", ..."},
		{"shared", "nouns that no room owns", strings.Join(shared, ", ")},
	} {
		b := box{pictureMargin + i*(third+gap/2), pictureHeight - height - 24, third, height}
		p.box(b)
		p.text(b, 12, 31, "name", band.name)
		p.text(b, 12, 55, "", band.what)
		p.text(b, 12, 79, "code", band.code)
	}
	return p
}

func names(list []room) (names []string) {
	for _, r := range list {
		names = append(names, r.name)
	}
	slices.Sort(names)
	return names
}

// roomImports returns the rooms that each room imports, but what all share.
func roomImports(t *testing.T) map[string][]string {
	all, _ := imports(t)
	found := map[string][]string{}
	of := func(pkg string) string { name, _, _ := strings.Cut(pkg, "/"); return name }
	for pkg, imported := range all {
		for other := range imported {
			from, to := of(pkg), of(other)
			if isRoom(from) && isRoom(to) && from != to && !slices.Contains(shared, other) {
				found[from] = append(found[from], to)
			}
		}
	}
	for name, others := range found {
		slices.Sort(others)
		found[name] = slices.Compact(others)
	}
	return found
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
