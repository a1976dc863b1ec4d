package main

import (
	"bufio"
	"crypto/tls"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/plane/credentials"
	"go.uber.org/goleak"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const widgetsPath = "/apis/example.com/v1/namespaces/default/widgets"

// TestAggregation: a group of another API server is served as if it were the
// cluster's own, for the user who asks; forged headers are believed nowhere; what
// is gone answers 503 and is not Available.
func TestAggregation(t *testing.T) {
	before := goleak.IgnoreCurrent()
	dir := t.TempDir()
	tokens := filepath.Join(dir, "more.csv")
	if err := os.WriteFile(tokens, []byte("jane-token,jane,1,readers\njoe-token,joe,2,readers\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cluster := start(t, filepath.Join(dir, "data"), "--storage", "memory", "--nodes", "0", "--token-auth-file", tokens)
	api := cluster.client(t)
	e := startExtension(t, api)
	e.register(t, api)
	grantWidgets(t, api, "jane", "joe")
	eventually(t, "the APIService is available", func() bool { return availability(t, api) == "True Passed" })

	get := func(path string) (string, error) {
		answer, err := api.Do(t.Context(), client.Request{Path: path})
		return string(answer.Body), err
	}
	eventually(t, "widgets are served", func() bool { _, err := get(widgetsPath); return err == nil })
	createAndWatch(t, api)
	if body, err := get("/apis"); err != nil || !strings.Contains(body, `{"groupVersion":"example.com/v1","version":"v1"}`) {
		t.Errorf("/apis: %s, %v", body, err)
	}
	if !e.saw(credentials.Administrator) {
		t.Errorf("the extension saw %v", e.seen)
	}
	forgeries(t, cluster.config, e)

	e.stop()
	touch(t, api)
	eventually(t, "it is not available", func() bool { return availability(t, api) == "False FailedDiscoveryCheck" })
	eventually(t, "it answers 503", func() bool {
		_, err := get(widgetsPath)
		return apierrors.IsServiceUnavailable(err)
	})
	api.Close()
	cluster.stop()
	noneLeft(t, before)
}

// grantWidgets lets users do everything with widgets, as far as the cluster goes.
func grantWidgets(t *testing.T, api *client.Client, users ...string) {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "widgets"}, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"*"}, APIGroups: []string{"example.com"}, Resources: []string{"widgets"}},
	}}
	if _, err := typed.ClusterRoles(api).Create(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
	}
	for _, name := range users {
		binding.Subjects = append(binding.Subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name})
	}
	if _, err := typed.ClusterRoleBindings(api).Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
}

// availability returns the condition of the APIService.
func availability(t *testing.T, api *client.Client) string {
	t.Helper()
	s, err := typed.APIServices(api).Get(t.Context(), "", "v1.example.com")
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Status.Conditions) != 1 {
		return ""
	}
	return string(s.Status.Conditions[0].Status) + " " + s.Status.Conditions[0].Reason
}

// touch changes the service, so that it is looked at again.
func touch(t *testing.T, api *client.Client) {
	t.Helper()
	s, err := typed.Services(api).Get(t.Context(), "default", "widgets")
	if err != nil {
		t.Fatal(err)
	}
	s.Labels = map[string]string{"touched": "yes"}
	if _, err := typed.Services(api).Update(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}

// createAndWatch creates a widget and sees it come on a watch.
func createAndWatch(t *testing.T, api *client.Client) {
	t.Helper()
	stream, _, err := api.Stream(t.Context(), client.Request{Path: widgetsPath, Query: url.Values{"watch": {"true"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	widget := []byte(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"one"},"data":{"color":"red"}}`)
	if _, err := api.Do(t.Context(), client.Request{Method: http.MethodPost, Path: widgetsPath, Body: widget}); err != nil {
		t.Fatal(err)
	}
	event, err := bufio.NewReader(stream).ReadString('\n')
	if err != nil || !strings.Contains(event, `"ADDED"`) || !strings.Contains(event, `"color":"red"`) {
		t.Errorf("watched %q, %v", event, err)
	}
}

// forgeries claims to be an administrator, to the cluster and to the extension,
// with every credential that does not make one a front proxy.
func forgeries(t *testing.T, config string, e *extension) {
	t.Helper()
	loaded, err := kubeconfig.Load(config)
	if err != nil {
		t.Fatal(err)
	}
	admin, _, err := loaded.Client("")
	if err != nil {
		t.Fatal(err)
	}
	stranger := admin.TLS.Clone()
	stranger.Certificates, stranger.GetClientCertificate = nil, nil
	cluster := &http.Transport{TLSClientConfig: stranger}
	direct := &tls.Config{RootCAs: e.roots, ServerName: "widgets.default.svc"}
	extension := &http.Transport{TLSClientConfig: direct}
	asAdmin := direct.Clone() // the cluster's administrator, but no front proxy
	asAdmin.Certificates, asAdmin.GetClientCertificate = admin.TLS.Certificates, admin.TLS.GetClientCertificate
	extensionAsAdmin := &http.Transport{TLSClientConfig: asAdmin}
	url := "https://localhost:" + strconv.Itoa(int(e.port))
	forged := http.Header{"X-Remote-User": {"kubernetes-admin"}, "X-Remote-Group": {"system:masters"}, "X_remote_user": {"kubernetes-admin"}}
	widget := `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"generateName":"forged-"}}`
	for what, test := range map[string]struct {
		transport          *http.Transport
		url, method, token string
		want               int
	}{
		"jane reads":                       {cluster, admin.Server, "GET", "jane-token", 200},
		"jane may not write":               {cluster, admin.Server, "POST", "jane-token", 403},
		"joe may not even read there":      {cluster, admin.Server, "GET", "joe-token", 403},
		"nobody":                           {cluster, admin.Server, "GET", "", 403},
		"the extension itself":             {extension, url, "GET", "", 403},
		"the extension, as administrator":  {extensionAsAdmin, url, "GET", "", 403},
		"the extension, with a good token": {extension, url, "GET", "jane-token", 401},
	} {
		r, err := http.NewRequestWithContext(t.Context(), test.method, test.url+widgetsPath, strings.NewReader(widget))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = forged.Clone()
		r.Header.Set("Content-Type", "application/json")
		if test.token != "" {
			r.Header.Set("Authorization", "Bearer "+test.token)
		}
		response, err := test.transport.RoundTrip(r)
		if err != nil {
			t.Fatalf("RoundTrip of %s (%s %s): %v", what, test.method, test.url+widgetsPath, err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != test.want {
			t.Errorf("%s: %d %s, %v, want %d", what, response.StatusCode, body, err, test.want)
		}
	}
	for _, transport := range []*http.Transport{cluster, extension, extensionAsAdmin} {
		transport.CloseIdleConnections()
	}
}

// TestLocalAPIServices: the groups of the cluster itself are there, available, and
// put right at every start.
func TestLocalAPIServices(t *testing.T) {
	dir := t.TempDir()
	first := start(t, dir, "--nodes", "0")
	api := first.client(t)
	objects := typed.APIServices(api)
	apps, err := objects.Get(t.Context(), "", "v1.apps")
	if err != nil {
		t.Fatal(err)
	}
	if apps.Labels["kube-aggregator.kubernetes.io/automanaged"] != "onstart" || apps.Spec.GroupPriorityMinimum != 17800 || apps.Spec.VersionPriority != 15 {
		t.Errorf("the APIService v1.apps has labels %v and priorities %d and %d, want automanaged onstart, 17800 and 15",
			apps.Labels, apps.Spec.GroupPriorityMinimum, apps.Spec.VersionPriority)
	}
	apps.Spec.GroupPriorityMinimum = 7
	if _, err := objects.Update(t.Context(), apps); err != nil {
		t.Fatal(err)
	}
	old := apps.DeepCopy()
	old.ObjectMeta = metav1.ObjectMeta{Name: "v9.apps", Labels: apps.Labels}
	old.Spec.Version = "v9"
	if _, err := objects.Create(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	if err := objects.Delete(t.Context(), "", "v1.batch", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	api.Close()
	first.stop()

	api = start(t, dir, "--nodes", "0").client(t)
	list, _, err := typed.APIServices(api).List(t.Context(), "", metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]int32{}
	for _, s := range list {
		have[s.Name] = s.Spec.GroupPriorityMinimum
		if s.Spec.Service != nil {
			continue // of the metrics server
		}
		if len(s.Status.Conditions) != 1 || s.Status.Conditions[0].Status != metav1.ConditionTrue || s.Status.Conditions[0].Reason != "Local" {
			t.Errorf("the APIService %s has status %+v, want one condition that is True with reason Local", s.Name, s.Status)
		}
	}
	if _, there := have["v9.apps"]; there || have["v1.apps"] != 17800 || have["v1.batch"] != 17400 || have["v1."] != 18000 {
		t.Errorf("after a restart: %v", have)
	}
}
