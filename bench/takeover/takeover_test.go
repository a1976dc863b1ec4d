package takeover

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/bench/peer"
	"github.com/planekit/planekit/storage/etcdstore"
)

var stockDir = flag.String("stock", "", "the directory of stock etcd and kube-apiserver; empty builds them")

// programs is the directory of the stock programs.
var programs string

func TestMain(m *testing.M) {
	flag.Parse()
	if programs = *stockDir; programs != "" {
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "planekit-takeover-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := 1
	if err := build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		programs = dir
		code = m.Run()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

func build(dir string) error {
	module, err := peer.Module(context.Background())
	if err != nil {
		return err
	}
	return peer.Build(context.Background(), dir, module, "./cmd/etcd", "./cmd/kube-apiserver")
}

// server is one of the API servers, with requests by its administrator.
type server struct {
	t    *testing.T
	web  *http.Client
	base string
}

func (s *server) do(method, path, body string, code int) map[string]any {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.base+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	answer, err := s.web.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if answer.StatusCode != code {
		s.t.Fatalf("%s %s: %d, want %d: %s", method, path, answer.StatusCode, code, data)
	}
	var obj map[string]any
	if err := json.Unmarshal(data, &obj); err != nil {
		s.t.Fatal(err)
	}
	return obj
}

// items lists a resource and returns its objects by namespace and name.
func (s *server) items(path string) map[string]any {
	s.t.Helper()
	list := s.do("GET", path, "", http.StatusOK)
	out := map[string]any{}
	items, _ := list["items"].([]any)
	for _, item := range items {
		meta := item.(map[string]any)["metadata"].(map[string]any)
		out[fmt.Sprint(meta["namespace"], "/", meta["name"])] = item
	}
	return out
}

// withToken adds the administrator's token.
type withToken struct {
	token string
	next  *http.Transport
}

func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+w.token)
	return w.next.RoundTrip(r)
}

// stock starts kube-apiserver on the etcd of files; stop stops it.
func stock(t *testing.T, files *peer.Stock, work string) (s *server, stop func()) {
	t.Helper()
	// All kinds that our server has are compared; by default Kubernetes does not serve this one.
	arguments := append(files.APIServerArguments(), "--feature-gates", "ClusterTrustBundle=true",
		"--runtime-config", "certificates.k8s.io/v1beta1/clustertrustbundles=true")
	process, err := peer.Launch(filepath.Join(work, "kube-apiserver.log"), filepath.Join(programs, "kube-apiserver"), arguments...)
	if err != nil {
		t.Fatal(err)
	}
	if err := files.AwaitReady(t.Context()); err != nil {
		_ = process.Stop()
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	return &server{t, &http.Client{Transport: withToken{files.Token, transport}}, files.URL}, func() {
		transport.CloseIdleConnections()
		if err := process.Stop(); err != nil {
			t.Error(err)
		}
	}
}

func resources() []apiserver.Resource {
	return kube.ResourcesFor(kube.Config{ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}})
}

// planekit starts a server of this project on the etcd of files.
func planekit(t *testing.T, files *peer.Stock) (s *server, stop func()) {
	t.Helper()
	client, err := etcdstore.Dial(t.Context(), etcdstore.DialConfig{Endpoints: []string{files.Etcd}})
	if err != nil {
		t.Fatal(err)
	}
	store, err := etcdstore.New(etcdstore.Config{Client: client})
	if err != nil {
		t.Fatal(err)
	}
	api, err := apiserver.New(apiserver.Config{
		Store: store, Resources: resources(), Layout: kube.Layout,
		Authenticator: authn.Chain{}, Authorizer: authz.Superusers(user.Masters),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- api.Run(ctx) }()
	admin := &http.Client{Transport: api.Transport(&user.Info{Name: "admin", Groups: []string{user.Masters}})}
	return &server{t, admin, "http://memory"}, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}

// listPath returns the path for listing all objects of a resource, or "" if they cannot be listed.
func listPath(r apiserver.Resource) string {
	switch {
	case r.Answer != nil || len(r.Verbs) > 0 && !slices.Contains(r.Verbs, "list"):
		return ""
	case r.Group == "":
		return "/api/v1/" + r.Plural
	}
	return "/apis/" + r.Group + "/" + r.Version + "/" + r.Plural
}

// startEtcd starts a stock etcd for the test, in a folder with the files for servers on it.
func startEtcd(t *testing.T) (work string, files *peer.Stock) {
	t.Helper()
	work = t.TempDir()
	files, err := peer.NewStock(work)
	if err != nil {
		t.Fatal(err)
	}
	etcd, err := peer.Launch(filepath.Join(work, "etcd.log"), filepath.Join(programs, "etcd"), files.EtcdArguments()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := etcd.Stop(); err != nil {
			t.Error(err)
		}
	})
	return work, files
}

// oldAutoscalers is the path of autoscalers in a version in which they are not stored.
const oldAutoscalers = "/apis/autoscaling/v1/horizontalpodautoscalers"

// TestTakeover: kube-apiserver fills an etcd and stops. planekit has the same objects, does not
// allocate their addresses and ports again, and changes them. kube-apiserver starts again and has
// planekit's changes.
func TestTakeover(t *testing.T) {
	work, files := startEtcd(t)

	theirs, stop := stock(t, files, work)
	for _, o := range objects {
		theirs.do("POST", o.path, o.body, http.StatusCreated)
	}
	want := map[string]map[string]any{}
	for _, r := range resources() {
		if path := listPath(r); path != "" {
			want[path] = theirs.items(path)
		}
	}
	want[oldAutoscalers] = theirs.items(oldAutoscalers)
	stop()

	ours, stop := planekit(t, files)
	for path, there := range want {
		compare(t, path, ours.items(path), there)
	}
	change(t, ours, want)
	stop()

	theirs, stop = stock(t, files, work)
	defer stop()
	verify(t, theirs)
}

// itsOwn reports whether a kube-apiserver writes an object about itself until it has stopped: its
// lease and its endpoints.
func itsOwn(path, name string) bool {
	return strings.HasPrefix(name, "kube-system/apiserver-") && strings.HasSuffix(path, "/leases") || name == "default/kubernetes" && !strings.HasSuffix(path, "/services")
}

func compare(t *testing.T, path string, got, want map[string]any) {
	t.Helper()
	if len(want) == 0 {
		t.Errorf("%s: kube-apiserver has none", path)
	}
	for name, theirs := range want {
		if ours := got[name]; !reflect.DeepEqual(ours, theirs) && !itsOwn(path, name) {
			a, _ := json.Marshal(ours)
			b, _ := json.Marshal(theirs)
			t.Errorf("%s: %s is\n%s\nwant\n%s", path, name, a, b)
		}
	}
	for name := range got {
		if want[name] == nil && !itsOwn(path, name) {
			t.Errorf("%s: %s is there", path, name)
		}
	}
}

// mutatingPolicy is the path of an object that kube-apiserver v1.36 stores as v1beta1 and planekit as v1.
const mutatingPolicy = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies/web"

// change writes the changes for verify through planekit.
func change(t *testing.T, ours *server, before map[string]map[string]any) {
	t.Helper()
	held := before["/api/v1/services"]["default/web"].(map[string]any)["spec"].(map[string]any)
	service := func(name, more string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"name":%q},"spec":{%s"ports":[{"port":80}]}}`, name, more)
	}
	const services = "/api/v1/namespaces/default/services"
	ours.do("POST", services, service("thief", fmt.Sprintf(`"clusterIP":%q,`, held["clusterIP"])), http.StatusUnprocessableEntity)
	port := held["ports"].([]any)[0].(map[string]any)["nodePort"]
	ours.do("POST", services, strings.Replace(service("thief", `"type":"NodePort",`), `"port":80`, fmt.Sprintf(`"port":80,"nodePort":%v`, port), 1), http.StatusUnprocessableEntity)
	ours.do("PATCH", "/api/v1/namespaces/default/configmaps/web", `{"data":{"k":"changed"}}`, http.StatusOK)
	ours.do("PATCH", "/apis/apps/v1/namespaces/default/deployments/web", `{"spec":{"replicas":3}}`, http.StatusOK)
	ours.do("PATCH", mutatingPolicy, `{"spec":{"reinvocationPolicy":"IfNeeded"}}`, http.StatusOK)
	ours.do("POST", "/api/v1/nodes", `{"apiVersion":"v1","kind":"Node","metadata":{"name":"ours"}}`, http.StatusCreated)
	ours.do("DELETE", "/api/v1/namespaces/default/secrets/web", "", http.StatusOK)
}

func verify(t *testing.T, theirs *server) {
	t.Helper()
	if data := theirs.do("GET", "/api/v1/namespaces/default/configmaps/web", "", http.StatusOK)["data"]; fmt.Sprint(data) != "map[k:changed]" {
		t.Errorf("the configmap web has the data %v, want map[k:changed]", data)
	}
	if spec := theirs.do("GET", "/apis/apps/v1/namespaces/default/deployments/web", "", http.StatusOK)["spec"].(map[string]any); spec["replicas"] != 3.0 {
		t.Errorf("the deployment web has the spec %v, want 3 replicas", spec)
	}
	if spec := theirs.do("GET", mutatingPolicy, "", http.StatusOK)["spec"].(map[string]any); spec["reinvocationPolicy"] != "IfNeeded" {
		t.Errorf("%s has the spec %v, want the reinvocationPolicy IfNeeded", mutatingPolicy, spec)
	}
	theirs.do("GET", "/api/v1/nodes/ours", "", http.StatusOK)
	theirs.do("GET", "/api/v1/namespaces/default/secrets/web", "", http.StatusNotFound)
}
