package extender_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/extender"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNewRefuses(t *testing.T) {
	filter := func(change func(*extender.Config)) extender.Config {
		c := extender.Config{URLPrefix: "http://127.0.0.1:1/x", FilterVerb: "filter"}
		change(&c)
		return c
	}
	managed := func(names ...string) func(*extender.Config) {
		return func(c *extender.Config) {
			for _, name := range names {
				c.ManagedResources = append(c.ManagedResources, extender.ManagedResource{Name: corev1.ResourceName(name)})
			}
		}
	}
	for name, test := range map[string]struct {
		config extender.Config
		want   string
	}{
		"nothing":          {extender.Config{}, "URLPrefix must be http:// or https:// and a host"},
		"no URL":           {filter(func(c *extender.Config) { c.URLPrefix = "http://user:secret@%" }), "URLPrefix cannot be parsed"},
		"no host":          {filter(func(c *extender.Config) { c.URLPrefix = "http://" }), "URLPrefix must be http:// or https:// and a host"},
		"scheme":           {filter(func(c *extender.Config) { c.URLPrefix = "ftp://a" }), "URLPrefix must be http:// or https:// and a host"},
		"query":            {filter(func(c *extender.Config) { c.URLPrefix = "http://a/?x=y" }), "URLPrefix must not have a query or a fragment"},
		"no verb":          {filter(func(c *extender.Config) { c.FilterVerb = "" }), "no verb is set"},
		"verb":             {filter(func(c *extender.Config) { c.FilterVerb = "%zz" }), `the verb "%zz" cannot be part of a URL`},
		"no weight":        {filter(func(c *extender.Config) { c.PrioritizeVerb = "p" }), "a Weight must be from 1 to 1000000, not 0"},
		"negative weight":  {filter(func(c *extender.Config) { c.PrioritizeVerb, c.Weight = "p", -1 }), "a Weight must be from 1 to 1000000, not -1"},
		"huge weight":      {filter(func(c *extender.Config) { c.PrioritizeVerb, c.Weight = "p", 1<<60 }), "a Weight must be from 1 to 1000000, not 1152921504606846976"},
		"timeout":          {filter(func(c *extender.Config) { c.HTTPTimeout = -1 }), "HTTPTimeout is negative"},
		"TLS without TLS":  {filter(func(c *extender.Config) { c.TLS = &tls.Config{} }), "TLS is set, but URLPrefix is not https://"},
		"two transports":   {filter(func(c *extender.Config) { c.TLS, c.Transport = &tls.Config{}, http.DefaultTransport }), "both Transport and TLS are set"},
		"native resource":  {filter(managed("cpu")), `managed resource "cpu": not the name of an extended resource`},
		"native group":     {filter(managed("kubernetes.io/batch")), `managed resource "kubernetes.io/batch": not the name of an extended resource`},
		"quota":            {filter(managed("requests.example.com/gpu")), `managed resource "requests.example.com/gpu": not the name of an extended resource`},
		"listed twice":     {filter(managed("example.com/a", "example.com/a")), `managed resource "example.com/a": listed twice`},
		"no resource name": {filter(managed("")), `managed resource "": name part must be non-empty`},
	} {
		if _, err := extender.New(test.config); err == nil || err.Error() != "extender: "+test.want {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
}

func TestInterested(t *testing.T) {
	gpu := corev1.Container{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}}}
	cpu := corev1.Container{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}}}
	managed := []extender.ManagedResource{{Name: "example.com/other"}, {Name: "example.com/gpu"}}
	for name, test := range map[string]struct {
		spec    corev1.PodSpec
		managed []extender.ManagedResource
		want    bool
	}{
		"all pods":       {corev1.PodSpec{Containers: []corev1.Container{cpu}}, nil, true},
		"other resource": {corev1.PodSpec{Containers: []corev1.Container{cpu}}, managed, false},
		"container":      {corev1.PodSpec{Containers: []corev1.Container{cpu, gpu}}, managed, true},
		"init container": {corev1.PodSpec{Containers: []corev1.Container{cpu}, InitContainers: []corev1.Container{gpu}}, managed, true},
	} {
		c, err := extender.New(extender.Config{URLPrefix: "http://a", FilterVerb: "filter", ManagedResources: test.managed})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Interested(&corev1.Pod{Spec: test.spec}); got != test.want {
			t.Errorf("%s: Interested() = %t, want %t", name, got, test.want)
		}
	}
}

// script is a transport with one answer, which records the question.
type script struct {
	status   int // zero is 200
	answer   string
	question string
	url      string
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s.url, s.question = r.Method+" "+r.URL.String()+" "+r.Header.Get("Content-Type"), string(body)
	status := s.status
	if status == 0 {
		status = http.StatusOK
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(s.answer))}, nil
}

// scripted returns an extender with all verbs that gives one answer.
func scripted(t testing.TB, s *script, change func(*extender.Config)) schedule.Extender {
	t.Helper()
	c := extender.Config{
		URLPrefix: "http://user:secret@extender/x/", FilterVerb: "filter", PrioritizeVerb: "prioritize", PreemptVerb: "preempt", BindVerb: "bind",
		Weight: 3, Transport: s,
	}
	if change != nil {
		change(&c)
	}
	client, err := extender.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return client.Extender()
}

func capable(c *extender.Config) { c.NodeCacheCapable = true }

func web() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "uid-web"}}
}

func nodes(names ...string) (list []*corev1.Node) {
	for _, name := range names {
		list = append(list, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return list
}

// TestQuestions checks what is sent.
func TestQuestions(t *testing.T) {
	const pod = `{"metadata":{"name":"web","namespace":"default","uid":"uid-web"},"spec":{"containers":null},"status":{}}`
	const victim = `{"metadata":{"name":"low","uid":"uid-low"},"spec":{"containers":null},"status":{}}`
	low := schedule.NewPodInfo(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "low", UID: "uid-low"}})
	found := []schedule.Preemption{{Node: "a", Victims: []*schedule.PodInfo{low}, Violations: 2}}
	const node = `{"metadata":{"name":"a"},"spec":{},"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":0}},"nodeInfo":{` +
		`"machineID":"","systemUUID":"","bootID":"","kernelVersion":"","osImage":"","containerRuntimeVersion":"","kubeletVersion":"","kubeProxyVersion":"","operatingSystem":"","architecture":""}}}`
	for name, test := range map[string]struct {
		change func(*extender.Config)
		ask    func(schedule.Extender) error
		verb   string
		want   string
	}{
		"filter": {nil, func(e schedule.Extender) error { _, _, err := e.Filter(t.Context(), web(), nodes("a")); return err }, "filter",
			`{"Pod":` + pod + `,"Nodes":{"metadata":{},"items":[` + node + `]},"NodeNames":null}`},
		"filter names": {capable, func(e schedule.Extender) error {
			_, _, err := e.Filter(t.Context(), web(), nodes("a", "b"))
			return err
		}, "filter",
			`{"Pod":` + pod + `,"Nodes":null,"NodeNames":["a","b"]}`},
		"prioritize": {capable, func(e schedule.Extender) error { _, err := e.Prioritize(t.Context(), web(), nodes("a")); return err }, "prioritize",
			`{"Pod":` + pod + `,"Nodes":null,"NodeNames":["a"]}`},
		"preempt": {nil, func(e schedule.Extender) error { _, err := e.Preempt(t.Context(), web(), found); return err }, "preempt",
			`{"Pod":` + pod + `,"NodeNameToVictims":{"a":{"Pods":[` + victim + `],"NumPDBViolations":2}},"NodeNameToMetaVictims":null}`},
		"preempt UIDs": {capable, func(e schedule.Extender) error { _, err := e.Preempt(t.Context(), web(), found); return err }, "preempt",
			`{"Pod":` + pod + `,"NodeNameToVictims":null,"NodeNameToMetaVictims":{"a":{"Pods":[{"UID":"uid-low"}],"NumPDBViolations":2}}}`},
		"bind": {nil, func(e schedule.Extender) error { return e.Bind(t.Context(), web(), "a") }, "bind",
			`{"PodName":"web","PodNamespace":"default","PodUID":"uid-web","Node":"a"}`},
	} {
		s := &script{answer: "null"}
		if err := test.ask(scripted(t, s, test.change)); err != nil {
			t.Errorf("%s: the question fails: %v, want no error", name, err)
		}
		if want := "POST http://user:secret@extender/x/" + test.verb + " application/json"; s.url != want || s.question != test.want {
			t.Errorf("%s: asked %s\n%s\nwant %s\n%s", name, s.url, s.question, want, test.want)
		}
	}
}

// TestFilter reads answers about the nodes a, b and c.
func TestFilter(t *testing.T) {
	const rest = "node(s) were refused by extender http://user:xxxxx@extender/x/"
	long := strings.Repeat("é", 300)
	for name, test := range map[string]struct {
		change   func(*extender.Config)
		answer   string
		accepted []string
		refused  map[string]schedule.Verdict
		err      string
	}{
		"names":          {capable, `{"NodeNames":["c","a"],"FailedNodes":{"b":"no"}}`, []string{"a", "c"}, map[string]schedule.Verdict{"b": schedule.Refuse("no")}, ""},
		"lower case":     {capable, `{"nodenames":["a","b","c"]}`, []string{"a", "b", "c"}, nil, ""},
		"objects":        {nil, `{"Nodes":{"items":[{"metadata":{"name":"b"}}]},"FailedAndUnresolvableNodes":{"a":"never","c":"never"},"FailedNodes":{"a":"no"}}`, []string{"b"}, map[string]schedule.Verdict{"a": schedule.RefuseAlways("never"), "c": schedule.RefuseAlways("never")}, ""},
		"other field":    {nil, `{"NodeNames":["a","b","c"]}`, nil, map[string]schedule.Verdict{"a": schedule.Refuse(rest), "b": schedule.Refuse(rest), "c": schedule.Refuse(rest)}, ""},
		"objects, names": {capable, `{"Nodes":{"items":[{"metadata":{"name":"b"}}]},"FailedNodes":{"a":"","c":"no"}}`, []string{"b"}, map[string]schedule.Verdict{"a": schedule.Refuse(rest), "c": schedule.Refuse("no")}, ""},
		"twice":          {capable, `{"NodeNames":["a","a","b","c"]}`, []string{"a", "b", "c"}, nil, ""},
		"both":           {capable, `{"NodeNames":["a","b","c"],"FailedNodes":{"a":"no"}}`, []string{"a", "b", "c"}, nil, ""},
		"nothing":        {capable, `{}`, nil, map[string]schedule.Verdict{"a": schedule.Refuse(rest), "b": schedule.Refuse(rest), "c": schedule.Refuse(rest)}, ""},
		"unknown failed": {capable, `{"NodeNames":["a","b","c"],"FailedNodes":{"z":"no"}}`, []string{"a", "b", "c"}, nil, ""},
		"long reason":    {capable, `{"NodeNames":["a","b"],"FailedNodes":{"c":"` + long + `"}}`, []string{"a", "b"}, map[string]schedule.Verdict{"c": schedule.Refuse(long[:512])}, ""},
		"unknown":        {capable, `{"NodeNames":["a","z"]}`, nil, nil, `extender "http://user:xxxxx@extender/x/" claims a filtered node "z" which is not found in the input node list`},
		"unknown object": {nil, `{"Nodes":{"items":[{"metadata":{"name":"z"}}]}}`, nil, nil, `extender "http://user:xxxxx@extender/x/" claims a filtered node "z" which is not found in the input node list`},
		"error":          {capable, `{"NodeNames":["a"],"Error":"no GPUs today"}`, nil, nil, "no GPUs today"},
		"not JSON":       {capable, `<html>`, nil, nil, `extender "http://user:xxxxx@extender/x/": filter: decode the answer: invalid character '<' looking for beginning of value`},
		"another shape":  {capable, `[]`, nil, nil, `extender "http://user:xxxxx@extender/x/": filter: decode the answer: json: cannot unmarshal array into Go value of type extender.FilterResult`},
		"empty":          {capable, ``, nil, nil, `extender "http://user:xxxxx@extender/x/": filter: decode the answer: unexpected end of JSON input`},
		"two values":     {capable, `{} {}`, nil, nil, `extender "http://user:xxxxx@extender/x/": filter: decode the answer: invalid character '{' after top-level value`},
	} {
		e := scripted(t, &script{answer: test.answer}, test.change)
		accepted, refused, err := e.Filter(t.Context(), web(), nodes("a", "b", "c"))
		if !slices.Equal(accepted, test.accepted) || len(refused)+len(test.refused) > 0 && !reflect.DeepEqual(refused, test.refused) || (err == nil) != (test.err == "") || err != nil && err.Error() != test.err {
			t.Errorf("%s: Filter() = %v, %v, %v, want %v, %v, %q", name, accepted, refused, err, test.accepted, test.refused, test.err)
		}
	}
}

// TestManyReasons bounds the different reasons of an answer.
func TestManyReasons(t *testing.T) {
	var names, failed []string
	for i := range 100 {
		names = append(names, fmt.Sprint("n", i))
		failed = append(failed, fmt.Sprintf(`"n%d":"reason %d"`, i, i))
	}
	e := scripted(t, &script{answer: `{"FailedNodes":{` + strings.Join(failed, ",") + `}}`}, capable)
	_, refused, err := e.Filter(t.Context(), web(), nodes(names...))
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, v := range refused {
		counts[v.Reasons[0]]++
	}
	if len(counts) != 65 || counts["reason 63"] != 1 || counts["node(s) were refused by extender http://user:xxxxx@extender/x/"] != 36 {
		t.Errorf("%d reasons: %v", len(counts), counts)
	}
}

func TestPrioritize(t *testing.T) {
	for name, test := range map[string]struct {
		answer string
		want   map[string]int64
		err    string
	}{
		"some":         {`[{"Host":"a","Score":10},{"host":"b","score":1}]`, map[string]int64{"a": 300, "b": 30, "c": 0}, ""},
		"out of range": {`[{"Host":"a","Score":11},{"Host":"b","Score":-2}]`, map[string]int64{"a": 330, "b": -60, "c": 0}, ""},
		"far out":      {`[{"Host":"a","Score":9223372036854775807},{"Host":"b","Score":-9223372036854775808}]`, map[string]int64{"a": 1 << 50 / 30 * 30, "b": -(1 << 50 / 30 * 30), "c": 0}, ""},
		"twice":        {`[{"Host":"a","Score":1},{"Host":"a","Score":2}]`, map[string]int64{"a": 90, "b": 0, "c": 0}, ""},
		"unknown":      {`[{"Host":"z","Score":1}]`, map[string]int64{"a": 0, "b": 0, "c": 0}, ""},
		"a fraction":   {`[{"Host":"a","Score":1.5}]`, nil, "cannot unmarshal number 1.5"},
		"object":       {`{}`, nil, "cannot unmarshal object"},
	} {
		got, err := scripted(t, &script{answer: test.answer}, nil).Prioritize(t.Context(), web(), nodes("a", "b", "c"))
		if !maps.Equal(got, test.want) || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s: Prioritize() = %v, %v, want %v and an error with %q", name, got, err, test.want, test.err)
		}
	}
}

func TestPreempt(t *testing.T) {
	answer := `{"NodeNameToMetaVictims":{"a":{"Pods":[{"UID":"x"},null,{"UID":"y"}],"NumPDBViolations":1},"b":null}}`
	got, err := scripted(t, &script{answer: answer}, nil).Preempt(t.Context(), web(), nil)
	want := map[string]schedule.VictimUIDs{"a": {UIDs: []types.UID{"x", "y"}, Violations: 1}, "b": {}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Preempt() = %v, %v, want %v", got, err, want)
	}
}

func TestBind(t *testing.T) {
	if err := scripted(t, &script{answer: "{}"}, nil).Bind(t.Context(), web(), "a"); err != nil {
		t.Error(err)
	}
	if err := scripted(t, &script{answer: `{"Error":"taken"}`}, nil).Bind(t.Context(), web(), "a"); err == nil || err.Error() != "taken" {
		t.Error(err)
	}
}

// TestNoVerb has no function for a verb that is not set.
func TestNoVerb(t *testing.T) {
	e := scripted(t, &script{}, func(c *extender.Config) { c.PrioritizeVerb, c.PreemptVerb, c.BindVerb = "", "", "" })
	if e.Filter == nil || e.Prioritize != nil || e.Preempt != nil || e.Bind != nil {
		t.Errorf("with the verb filter alone Filter is set %t, Prioritize %t, Preempt %t, Bind %t, want Filter alone",
			e.Filter != nil, e.Prioritize != nil, e.Preempt != nil, e.Bind != nil)
	}
}

// TestFaults has real servers that answer badly, or not at all.
func TestFaults(t *testing.T) {
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"hangs": {func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // or the server does not see that the client is gone
			<-r.Context().Done()
		}, "context deadline exceeded"},
		"hangs in the answer": {func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(w, `{"NodeNames":[`)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, "context deadline exceeded"},
		"closes": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
		"closes in between": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "{")
		}, "unexpected EOF"},
		"HTML": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<!DOCTYPE html>") }, "invalid character '<'"},
		"500":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, "failed filter with extender at URL URL/filter, code 500"},
		"redirects": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/other", http.StatusTemporaryRedirect)
		}, "failed filter with extender at URL URL/filter, code 307"},
		"deep": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("[", 20_000)) }, "exceeded max depth"},
		"100 MB": {func(w http.ResponseWriter, _ *http.Request) {
			for range 100 {
				if _, err := w.Write(bytes.Repeat([]byte(" "), 1<<20)); err != nil {
					return
				}
			}
		}, "the answer has more than 4194590 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(test.answer)
			defer server.Close()
			config := extender.Config{URLPrefix: server.URL, FilterVerb: "filter", NodeCacheCapable: true}
			if strings.HasPrefix(name, "hangs") {
				config.HTTPTimeout = 20 * time.Millisecond
			}
			c, err := extender.New(config)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_, _, err = c.Extender().Filter(t.Context(), web(), nodes("a"))
			if err == nil || !strings.Contains(err.Error(), strings.Replace(test.want, "URL/", server.URL+"/", 1)) {
				t.Errorf("%v, want %s", err, test.want)
			}
		})
	}
}

// TestTLS verifies the extender.
func TestTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(extender.Handler{Filter: func(*corev1.Pod, *corev1.Node) schedule.Verdict { return schedule.Fits }})
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // a handshake fails
	server.StartTLS()
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	for name, config := range map[string]*tls.Config{"trusted": {RootCAs: roots}, "not trusted": nil} {
		c, err := extender.New(extender.Config{URLPrefix: server.URL, FilterVerb: "filter", NodeCacheCapable: true, TLS: config})
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = c.Extender().Filter(context.Background(), web(), nodes("a"))
		if (err == nil) != (config != nil) || err != nil && !strings.Contains(err.Error(), "certificate") {
			t.Errorf("%s: Filter() = %v, want an error about the certificate: %t", name, err, config == nil)
		}
		c.Close()
	}
}
