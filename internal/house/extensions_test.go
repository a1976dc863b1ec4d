package house

import (
	"encoding/json"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// extension holds a test of what ARCHITECTURE.md shows how to add. The test is added to
// a package and must be called TestExtension.
type extension struct{ file, test string }

// extensions holds the tests by the titles of the sections.
var extensions = map[string]extension{
	"a kind": {"examples/embed/extension_test.go", `package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestExtension(t *testing.T) {
	api, err := handler()
	if err != nil {
		t.Fatal(err)
	}
	const gadget = "{\"apiVersion\": \"example.com/v1\", \"kind\": \"Gadget\", \"metadata\": {\"name\": \"one\"}}"
	for method, body := range map[string]string{http.MethodPost: gadget, http.MethodGet: ""} {
		r := httptest.NewRequest(method, "/apis/example.com/v1/namespaces/default/gadgets", strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer let-me-in")
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		if w.Code >= 300 || !strings.Contains(w.Body.String(), "\"kind\":\"Gadget") {
			t.Errorf("%s: %d %s", method, w.Code, w.Body)
		}
	}
}
`},
	"a controller": {"plane/planetest/extension_test.go", `package planetest_test

import (
	"testing"
	"time"

	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/examples/greeter"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/controllerset"
	"github.com/planekit/planekit/plane/planetest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestExtension(t *testing.T) {
	var row controllerset.Controller
	row.Name, row.New = "greeter", greeter.New
	p := planetest.Start(t, planetest.With(func(c *plane.Config) {
		c.Controllers.More = []controllerset.Controller{row}
	}))
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		events, _, err := typed.Events(p.Client()).List(t.Context(), "", metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if e.Reason == "Greeted" && e.Message == "hello default" {
				return
			}
		}
	}
	t.Error("no event greets the namespace default")
}
`},
	"an admission plugin": {"plane/pluginset/extension_test.go", `package pluginset

import (
	"testing"

	"github.com/planekit/planekit/admission"
	corev1 "k8s.io/api/core/v1"
)

func TestExtension(t *testing.T) {
	for _, row := range new(Set).table() {
		if row.Name != "OwnerLabel" {
			continue
		}
		plugin, err := row.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		if plugin.(admission.Validator).Validate(t.Context(), &admission.Request{Object: &corev1.Pod{}}) == nil {
			t.Error("a pod without the label was admitted")
		}
		return
	}
	t.Error("the plugin is not in the table")
}
`},
	"a predicate or a priority": {"schedule/predicates/extension_test.go", `package predicates_test

import (
	"testing"

	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/predicates"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestExtension(t *testing.T) {
	s := schedule.NewState(predicates.Default(), nil, 1)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: map[string]string{"maintenance": ""}}}
	node.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}
	s.SetNode(node)
	_, unfit := s.Decide(schedule.NewPodInfo(&corev1.Pod{}))
	if unfit == nil || unfit.Reasons["node(s) were under maintenance"] != 1 {
		t.Error(unfit)
	}
}
`},
	"a volume type": {"kubelet/volumes/extension_test.go", `package volumes

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestExtension(t *testing.T) {
	set, err := NewSet(Builtin(Sources{})...)
	if err != nil {
		t.Fatal(err)
	}
	source := corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "motd"}}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "v", VolumeSource: source}}}}
	paths, err := set.SetUp(t.Context(), pod, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(paths["v"], "motd")); err != nil || string(text) != "be kind" {
		t.Errorf("%q %v", text, err)
	}
}
`},
	"a CNI plugin": {"cni/planekit-cni/extension_test.go", `//go:build linux

package main

import (
	"slices"
	"testing"

	"github.com/planekit/planekit/cni"
	"github.com/planekit/planekit/cni/plugins"
	"github.com/planekit/planekit/cni/skel"
)

func TestExtension(t *testing.T) {
	plugin, ok := plugins.Lookup("journal")
	if !ok || !slices.Contains(plugins.Names(), "journal") {
		t.Fatal("the plugin is not in the table")
	}
	before := new(cni.Result)
	if after, err := plugin.Add(t.Context(), &skel.Request{Previous: before}); err != nil || after != before {
		t.Errorf("%v %v", after, err)
	}
}
`},
}

// mostAdded bounds the lines that a diff adds.
const mostAdded = 25

var (
	section = regexp.MustCompile(`(?m)^### (.*)$`)
	patch   = regexp.MustCompile("(?ms)^```diff\n(.*?)^```$")
)

// TestExtensions applies the diffs of ARCHITECTURE.md to the tree, all at once and by means of
// an overlay, builds the packages and runs the tests of the extensions.
func TestExtensions(t *testing.T) {
	text := read(t, "ARCHITECTURE.md")
	tree := overlay{}
	var packages []string
	seen := map[string]bool{}
	titles := section.FindAllStringSubmatchIndex(text, -1)
	for i, at := range titles {
		title, end := text[at[2]:at[3]], len(text)
		if i+1 < len(titles) {
			end = titles[i+1][0]
		}
		for _, m := range patch.FindAllStringSubmatch(text[at[1]:end], -1) {
			seen[title] = true
			if added := strings.Count("\n"+m[1], "\n+") - strings.Count(m[1], "+++ ") - strings.Count(m[1], "\n+\n"); added > mostAdded {
				t.Errorf("%s: the diff adds %d lines, and more than %d", title, added, mostAdded)
			}
			tree.apply(t, m[1])
		}
	}
	for title, e := range extensions {
		if !seen[title] {
			t.Errorf("ARCHITECTURE.md has no diff in the section %q", title)
		}
		tree[e.file] = e.test
		packages = append(packages, "./"+filepath.ToSlash(filepath.Dir(e.file)))
	}
	for title := range seen {
		if _, ok := extensions[title]; !ok {
			t.Errorf("nothing uses the diff of %q", title)
		}
	}
	if t.Failed() {
		return
	}
	// vet does not find the folders that only the overlay has.
	args := append([]string{"test", "-overlay=" + tree.write(t), "-vet=off", "-timeout=2m", "-run=^TestExtension$"}, packages...)
	if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil || strings.Contains(string(out), "no test") {
		t.Errorf("go test of the extensions: %v, want no error and tests in every package\n%s", err, out)
	}
}

// overlay holds the text of files that differ from those on the disk.
type overlay map[string]string

// apply applies a unified diff without line numbers. The old lines of a hunk must be found once in
// the file.
func (o overlay) apply(t *testing.T, diff string) {
	t.Helper()
	for file := range strings.SplitSeq("\n"+diff, "\n--- ") {
		head, hunks, found := strings.Cut(file, "\n@@\n")
		if !found {
			continue // what comes before the first file
		}
		from, to, _ := strings.Cut(head, "\n+++ b/")
		text := o[to]
		if from != "/dev/null" && text == "" {
			text = read(t, strings.TrimPrefix(from, "a/"))
		}
		for hunk := range strings.SplitSeq(hunks, "@@\n") {
			var before, after strings.Builder
			for line := range strings.Lines(hunk) {
				rest := strings.TrimSuffix(line[1:], "\n") + "\n"
				if line[0] != '+' {
					before.WriteString(rest)
				}
				if line[0] != '-' {
					after.WriteString(rest)
				}
			}
			if n := strings.Count(text, before.String()); n != 1 && from != "/dev/null" {
				t.Errorf("ARCHITECTURE.md: %s has %d times:\n%s", to, n, &before)
			}
			text = strings.Replace(text, before.String(), after.String(), 1)
		}
		if formatted, err := format.Source([]byte(text)); err != nil || string(formatted) != text {
			t.Errorf("ARCHITECTURE.md: %s is not formatted by gofmt: %v", to, err)
		}
		o[to] = text
	}
}

// write returns the name of a file for the flag -overlay.
func (o overlay) write(t *testing.T) string {
	t.Helper()
	dir, root := t.TempDir(), filepath.Dir(absolute(t, "go.mod"))
	replace := map[string]string{}
	for path, text := range o {
		file := filepath.Join(dir, strings.ReplaceAll(path, "/", "_"))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(root, path)] = file
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
