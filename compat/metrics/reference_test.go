package metrics

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/planekit/planekit/internal/reference"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write docs/reference/metrics.md")

// A part is a section of the page: the metrics that one component serves at one path.
type part struct {
	heading, text string
	// describe sends the descriptors of all metrics.
	describe func(chan<- *prometheus.Desc)
	// handler serves them; each has a series by now.
	handler http.Handler
}

// registered returns a part of a collector.
func registered(heading, text string, c prometheus.Collector) part {
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	return part{heading, text, c.Describe, promhttp.HandlerFor(registry, promhttp.HandlerOpts{})}
}

// A metric is a row of the page.
type metric struct {
	name, kind, help string
	labels           []string
}

// descriptor is the text of a descriptor, which has no other way to be read.
var descriptor = regexp.MustCompile(`^Desc\{fqName: ("(?:[^"\\]|\\.)*"), help: ("(?:[^"\\]|\\.)*"), constLabels: \{.*\}, variableLabels: \{(.*)\}\}$`)

// ofProcess reports whether a metric is one of the process or the Go runtime, which differ between versions of Go.
func ofProcess(name string) bool {
	return strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_")
}

// metrics returns the metrics that a part describes, with the types that it serves them with.
func (p part) metrics(t *testing.T) (all []metric) {
	t.Helper()
	kinds := map[string]string{}
	for name, f := range served(t, p.handler, "/") {
		kinds[name] = f.kind
	}
	described := make(chan *prometheus.Desc)
	go func() {
		defer close(described)
		p.describe(described)
	}()
	for d := range described {
		m := descriptor.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("the descriptor %v is of another form, want %v", d, descriptor)
		}
		name, err1 := strconv.Unquote(m[1])
		help, err2 := strconv.Unquote(m[2])
		if err1 != nil || err2 != nil {
			t.Fatalf("Unquote() = %v, %v for %v, want nil", err1, err2, d)
		}
		if ofProcess(name) {
			continue
		}
		row := metric{name: name, help: help, kind: kinds[name]}
		if m[3] != "" {
			row.labels = strings.Split(m[3], ",")
		}
		if row.kind == "" {
			t.Errorf("%s: no call of this test makes a series of %s, want one that shows its type", p.heading, name)
		}
		delete(kinds, name)
		all = append(all, row)
	}
	for name := range kinds {
		if !ofProcess(name) {
			t.Errorf("%s: %s is served, but not described", p.heading, name)
		}
	}
	return all
}

// A shown is a family of an exposition.
type shown struct {
	kind, help string
	labels     []string
}

// served returns the families that a handler serves at a path.
func served(t *testing.T, handler http.Handler, path string) map[string]shown {
	t.Helper()
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	text, err := io.ReadAll(w.Result().Body)
	if err != nil || w.Code != http.StatusOK {
		t.Fatalf("GET %s = %d, %v, want %d: %s", path, w.Code, err, http.StatusOK, text)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(text)))
	if err != nil {
		t.Fatalf("TextToMetricFamilies() = %v, want nil", err)
	}
	all := map[string]shown{}
	for name, f := range families {
		one := shown{kind: strings.ToLower(f.GetType().String()), help: f.GetHelp()}
		for _, l := range f.GetMetric()[0].GetLabel() {
			one.labels = append(one.labels, l.GetName())
		}
		all[name] = one
	}
	return all
}

// levels returns the stability of the metrics of Kubernetes, by name.
func levels(t *testing.T) map[string]string {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		t.Fatalf("go list -m k8s.io/kubernetes = %v, want nil", err)
	}
	all := map[string]string{}
	// The second list is the one that Kubernetes' tests keep up to date.
	for _, file := range []string{"documentation/documentation-list.yaml", "testdata/stable-metrics-list.yaml"} {
		data, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "test", "instrumentation", filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		var list []struct{ Name, Namespace, Subsystem, StabilityLevel string }
		if err := yaml.Unmarshal(data, &list); err != nil {
			t.Fatalf("Unmarshal(%s) = %v, want nil", file, err)
		}
		for _, m := range list {
			name := strings.Join(slices.DeleteFunc([]string{m.Namespace, m.Subsystem, m.Name}, func(s string) bool { return s == "" }), "_")
			all[name] = m.StabilityLevel
		}
	}
	if len(all) < 300 {
		t.Errorf("the lists have %d metrics, want at least 300", len(all))
	}
	return all
}

// TestReference checks that docs/reference/metrics.md has each metric that a component declares, with the type that it
// is served with. It needs no cluster: the test calls what makes a component count.
func TestReference(t *testing.T) {
	stability := levels(t)
	var b strings.Builder
	b.WriteString(`# The metrics of planekit

This page is drawn from what the components declare: ` + "`cd compat && go test ./metrics -run TestReference -update`" + `
writes it again. The level is that of the metric of this name in Kubernetes v1.36.3; without one, Kubernetes has none of
this name (those of CoreDNS, cAdvisor and controller-runtime are not Kubernetes's). Metrics that Kubernetes has and planekit does
not are in [COMPATIBILITY.md](../../COMPATIBILITY.md#metrics-that-are-stable-or-beta), and how to read them in
[operating.md](../operating.md). API server and kubelet also serve the usual metrics of the process and of the Go
runtime, whose names begin with process_ and go_.
`)
	for _, p := range parts(t) {
		section(&b, p.heading, p.text, p.metrics(t), stability)
	}
	for _, p := range usage(t) {
		section(&b, p.heading, p.text, p.metrics, map[bool]map[string]string{true: stability}[p.kubernetes])
	}
	checkPackages(t, b.String())
	reference.Check(t, filepath.Join("..", "..", "docs", "reference", "metrics.md"), b.String(), *update)
}

// checkPackages checks that the page names each package that declares metrics.
func checkPackages(t *testing.T, page string) {
	t.Helper()
	root := filepath.Join("..", "..")
	declares := regexp.MustCompile(`prometheus\.(?:NewDesc|New\w+(?:Vec|Func)?\(prometheus\.\w+Opts)`)
	found := 0
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() && (name == "compat" || name == "bench" || name == "bin" || name == "testdata" || name == ".git") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		source, err := os.ReadFile(file)
		if err != nil || !declares.Match(source) {
			return err
		}
		found++
		folder, err := filepath.Rel(root, filepath.Dir(file))
		if !strings.Contains(page, "`"+filepath.ToSlash(folder)+"`") {
			t.Errorf("%s declares metrics, and the page does not name its package: add it to parts", file)
		}
		return err
	})
	if err != nil || found < 10 {
		t.Errorf("WalkDir() = %v with %d files that declare metrics, want nil and at least 10", err, found)
	}
}

// section writes the table of a section.
func section(b *strings.Builder, heading, text string, all []metric, stability map[string]string) {
	slices.SortFunc(all, func(a, b metric) int { return cmp.Compare(a.name, b.name) })
	var rows [][]string
	for _, m := range all {
		rows = append(rows, []string{"`" + m.name + "`", m.kind, strings.Join(m.labels, ", "), stability[m.name], m.help})
	}
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n%s", heading, text, reference.Table([]string{"metric", "type", "labels", "level", "meaning"}, rows))
}

// knows checks that a test knows all methods of m. A method that it does not know might add metrics, which
// the page would lack.
func knows(t *testing.T, m any, methods ...string) {
	t.Helper()
	var have []string
	of := reflect.TypeOf(m)
	for i := range of.NumMethod() { // they are sorted
		have = append(have, of.Method(i).Name)
	}
	slices.Sort(methods)
	if !slices.Equal(have, methods) {
		t.Errorf("%T has the methods %v, want %v: if one is new, call it here so that its metrics are on the page", m, have, methods)
	}
}
