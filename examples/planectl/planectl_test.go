package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/planekit/planekit/client/kubeconfig"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster is a server that answers from a script and writes down what it was
// asked.
type cluster struct {
	t          *testing.T
	kubeconfig string
	answers    map[string]string // by "METHOD /path?query", or without the query
	asked      []string          // requests outside discovery, with their bodies
}

const (
	podTable = `{"kind":"Table","metadata":{"resourceVersion":"7"},"columnDefinitions":[
		{"name":"Name","type":"string","format":"name","priority":0},{"name":"Ready","type":"string","priority":0},{"name":"Node","type":"string","priority":1}],
		"rows":[%s]}`
	podRow = `{"cells":[%q,"1/1","node-a"],"object":{"kind":"PartialObjectMetadata","metadata":{"name":%q,"namespace":"shop"}}}`
	webPod = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web","namespace":"shop","uid":"u1","resourceVersion":"7"}}`
)

func row(name string) string { return fmt.Sprintf(podRow, name, name) }

func newCluster(t *testing.T) *cluster {
	c := &cluster{t: t, answers: map[string]string{
		"GET /api":  `{"versions":["v1"]}`,
		"GET /apis": `{"groups":[{"name":"apps","versions":[{"version":"v1"}],"preferredVersion":{"version":"v1"}}]}`,
		"GET /api/v1": `{"resources":[{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","shortNames":["po"]},
			{"name":"nodes","singularName":"node","namespaced":false,"kind":"Node","shortNames":["no"]}]}`,
		"GET /apis/apps/v1": `{"resources":[{"name":"deployments","singularName":"deployment","namespaced":true,"kind":"Deployment","shortNames":["deploy"]}]}`,
	}}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	k := kubeconfig.Config{
		CurrentContext: "test",
		Clusters:       map[string]kubeconfig.Cluster{"c": {Server: server.URL}},
		Users:          map[string]kubeconfig.User{"u": {Token: "s3cret"}},
		Contexts:       map[string]kubeconfig.Context{"test": {Cluster: "c", User: "u", Namespace: "shop"}},
	}
	c.kubeconfig = filepath.Join(t.TempDir(), "config")
	if err := k.Write(c.kubeconfig); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer s3cret" {
		c.t.Errorf("authorization %q", r.Header.Get("Authorization"))
	}
	if strings.Contains(r.Header.Get("Content-Type"), "protobuf") {
		w.WriteHeader(http.StatusUnsupportedMediaType) // the script is in JSON
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		c.t.Error(err)
	}
	q := r.URL.Query()
	q.Del("timeoutSeconds")
	request := r.Method + " " + r.URL.Path
	exact := request
	if len(q) > 0 {
		exact += "?" + q.Encode()
	}
	if !strings.HasPrefix(r.URL.Path, "/api") || strings.Count(r.URL.Path, "/") > 3 || r.URL.Path == "/api/v1/nodes" {
		c.asked = append(c.asked, strings.TrimSpace(exact+" "+string(body)))
	}
	answer, ok := c.answers[exact]
	if !ok {
		answer, ok = c.answers[request]
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case ok && answer == "echo":
		w.WriteHeader(http.StatusCreated)
		w.Write(body)
	case ok:
		io.WriteString(w, answer)
	default:
		w.WriteHeader(http.StatusNotFound)
		segments := strings.Split(r.URL.Path, "/")
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"%s \"%s\" not found"}`,
			segments[len(segments)-2], segments[len(segments)-1])
	}
}

// result holds the output and the exit code of the program.
type result struct {
	code     int
	out, err string
}

func (c *cluster) run(args ...string) result {
	c.t.Helper()
	c.asked = nil
	var out, err bytes.Buffer
	code := execute(context.Background(), append([]string{"--kubeconfig=" + c.kubeconfig}, args...), environment{
		Out: &out, Err: &err, Getenv: func(string) string { return "" }})
	return result{code, out.String(), err.String()}
}

func (c *cluster) check(got, want result) {
	c.t.Helper()
	if got != want {
		c.t.Errorf("code %d\nout:\n%serr:\n%swant %d\nout:\n%serr:\n%s", got.code, got.out, got.err, want.code, want.out, want.err)
	}
}

func TestGet(t *testing.T) {
	c := newCluster(t)
	c.answers["GET /api/v1/namespaces/shop/pods"] = fmt.Sprintf(podTable, row("web")+","+row("longer"))
	c.answers["GET /api/v1/namespaces/shop/pods?labelSelector=app%3Dx"] = fmt.Sprintf(podTable, "")
	c.answers["GET /api/v1/namespaces/shop/pods/web"] = fmt.Sprintf(podTable, row("web"))
	c.answers["GET /api/v1/pods"] = fmt.Sprintf(podTable, row("web"))
	c.answers["GET /api/v1/nodes"] = fmt.Sprintf(podTable, "")
	c.answers["GET /apis/apps/v1/namespaces/shop/deployments"] = fmt.Sprintf(podTable, row("nginx"))
	c.check(c.run("get", "po"), result{0, "NAME     READY\nweb      1/1\nlonger   1/1\n", ""})
	c.check(c.run("get", "pods", "-o", "wide", "-A"), result{0, "NAMESPACE   NAME   READY   NODE\nshop        web    1/1     node-a\n", ""})
	c.check(c.run("get", "pod/web"), result{0, "NAME   READY\nweb    1/1\n", ""})
	c.check(c.run("get", "pod", "web", "none"), result{1, "NAME   READY\nweb    1/1\n", "Error from server (NotFound): pods \"none\" not found\n"})
	c.check(c.run("get", "pods", "-l", "app=x"), result{0, "", "No resources found in shop namespace.\n"})
	c.check(c.run("get", "nodes"), result{0, "", "No resources found\n"})
	c.check(c.run("get", "pods,deploy"), result{0, "NAME         READY\npod/web      1/1\npod/longer   1/1\n\n" +
		"NAME                    READY\ndeployment.apps/nginx   1/1\n", ""})
	c.check(c.run("get", "unicorns"), result{1, "", "error: the server doesn't have a resource type \"unicorns\"\n"})
	c.check(c.run("get"), result{1, "", "error: you must specify the type of resource to get\nSee 'planectl get -h' for help and examples\n"})
	c.check(c.run("get", "pods", "-o", "xml"), result{1, "", "error: unable to match a printer suitable for the output format \"xml\", allowed formats are: json,name,wide,yaml\n"})
	c.check(c.run("get", "pods", "web", "-A"), result{1, "", "error: a resource cannot be retrieved by name across all namespaces or with a selector\n"})
	c.check(c.run("get", "pods,nodes", "-w"), result{1, "", "error: you may only specify a single resource type\n"})
	c.check(c.run("get", "pods", ".."), result{1, "", "error: invalid resource name \"..\": [may not be '..']\n"})
	c.check(c.run("get", "pods", "-n", "a/b"), result{1, "", "error: invalid namespace \"a/b\": [may not contain '/']\n"})
}

func TestGetWhole(t *testing.T) {
	c := newCluster(t)
	c.answers["GET /api/v1/namespaces/shop/pods/web"] = webPod
	c.answers["GET /api/v1/namespaces/shop/pods"] = `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[
		{"metadata":{"name":"web","managedFields":[]}},{"metadata":{"name":"db"}}]}`
	c.check(c.run("get", "pod", "web", "-o", "yaml"), result{0,
		"apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  namespace: shop\n  resourceVersion: \"7\"\n  uid: u1\n", ""})
	c.check(c.run("get", "pods", "-o", "name"), result{0, "pod/web\npod/db\n", ""})
	c.check(c.run("get", "pods", "-o", "yaml"), result{0, `apiVersion: v1
items:
- apiVersion: v1
  kind: Pod
  metadata:
    name: web
- apiVersion: v1
  kind: Pod
  metadata:
    name: db
kind: List
metadata:
  resourceVersion: ""
`, ""})
}

func TestGetWatch(t *testing.T) {
	c := newCluster(t)
	c.answers["GET /api/v1/namespaces/shop/pods/web"] = fmt.Sprintf(podTable, row("web"))
	c.answers["GET /api/v1/namespaces/shop/pods?fieldSelector=metadata.name%3Dweb&resourceVersion=7&watch=true"] =
		`{"type":"MODIFIED","object":` + fmt.Sprintf(podTable, row("web")) + "}\n" +
			`{"type":"DELETED","object":` + fmt.Sprintf(podTable, row("web")) + "}\n"
	c.check(c.run("get", "pod/web", "-w"), result{0, "NAME   READY\nweb    1/1\nweb    1/1\nweb    1/1\n", ""})

	c.answers["GET /api/v1/namespaces/shop/pods"] = `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[]}`
	c.answers["GET /api/v1/namespaces/shop/pods?resourceVersion=9&watch=true"] = `{"type":"ADDED","object":` + webPod + "}\n" +
		`{"type":"ERROR","object":{"kind":"Status","reason":"Expired","code":410,"message":"too old"}}`
	c.check(c.run("get", "pods", "-w", "-o", "name"), result{1, "pod/web\n", "Error from server (Expired): too old\n"})
}

func TestRun(t *testing.T) {
	c := newCluster(t)
	for _, path := range []string{"/apis/apps/v1/namespaces/shop/deployments", "/apis/batch/v1/namespaces/shop/jobs", "/api/v1/namespaces/shop/pods"} {
		c.answers["POST "+path] = "echo"
	}
	c.check(c.run("run", "nginx", "--image=nginx", "--replicas=3", "--port=80", "--env=A=b", "--labels=app=x"),
		result{0, "deployment.apps/nginx created\n", ""})
	var sent struct {
		Spec struct{ Replicas int }
	}
	if _, body, _ := strings.Cut(c.asked[0], "deployments "); json.Unmarshal([]byte(body), &sent) != nil || sent.Spec.Replicas != 3 {
		t.Errorf("sent %s", c.asked)
	}
	c.check(c.run("run", "pi", "--image=perl", "--restart=OnFailure", "-o", "name"), result{0, "job.batch/pi\n", ""})
	c.check(c.run("run", "shell", "--image=busybox", "--restart=Never", "--", "sh", "-c", "true"), result{0, "pod/shell created\n", ""})
	if !strings.Contains(c.asked[0], `"args":["sh","-c","true"]`) {
		t.Errorf("sent %s", c.asked)
	}
	c.check(c.run("run", "nginx", "--image=nginx", "--dry-run=client"), result{0, "deployment.apps/nginx created (dry run)\n", ""})
	if len(c.asked) != 0 {
		t.Errorf("a dry run asked %s", c.asked)
	}
	if got := c.run("run", "x", "--image=nginx", "--restart=Never", "--dry-run=client", "-o", "yaml"); !strings.HasPrefix(got.out, "apiVersion: v1\nkind: Pod\n") {
		t.Errorf("run(run x --restart=Never --dry-run=client -o yaml) = %+v, want the YAML of a v1 Pod", got)
	}
	c.check(c.run("run", "web", "--image=nginx", "--port=80", "--expose", "--dry-run=client"),
		result{0, "service/web created (dry run)\ndeployment.apps/web created (dry run)\n", ""})
	c.check(c.run("run", "web", "--image=nginx", "--expose"), result{1, "", "error: --port must be set when exposing a service\n"})
	c.check(c.run("run"), result{1, "", "error: NAME is required for run\nSee 'planectl run -h' for help and examples\n"})
	c.check(c.run("run", "nginx"), result{1, "", "error: --image is required\n"})
	c.check(c.run("run", "nginx", "--image=nginx", "--restart=x"), result{1, "", "error: invalid restart policy: x\n"})
	c.check(c.run("run", "nginx", "--image=nginx", "--dry-run=x"), result{1, "", "error: invalid dry-run value (x): must be \"none\" or \"client\"\n"})
}

func TestScale(t *testing.T) {
	c := newCluster(t)
	c.answers["PATCH /apis/apps/v1/namespaces/shop/deployments/nginx/scale"] = `{}`
	c.check(c.run("scale", "deploy/nginx", "--replicas=5"), result{0, "deployment.apps/nginx scaled\n", ""})
	if want := `PATCH /apis/apps/v1/namespaces/shop/deployments/nginx/scale {"spec":{"replicas":5}}`; c.asked[0] != want {
		t.Errorf("asked %s", c.asked)
	}
	c.check(c.run("scale", "deploy/nginx"), result{1, "", "error: The --replicas=COUNT flag is required, and COUNT must be greater than or equal to 0\n"})
	c.check(c.run("scale", "deploy", "--replicas=1"), result{1, "", "error: resource(s) were provided, but no name was specified\n"})
	c.check(c.run("scale", "deploy/gone", "--replicas=1"), result{1, "", "Error from server (NotFound): gone \"scale\" not found\n"})
}

func TestDelete(t *testing.T) {
	c := newCluster(t)
	const path = "/api/v1/namespaces/shop/pods/web"
	const watched = "GET /api/v1/namespaces/shop/pods?fieldSelector=metadata.name%3Dweb&resourceVersion=7&watch=true"
	c.answers["DELETE "+path] = webPod
	c.answers["GET "+path] = webPod
	c.answers[watched] = `{"type":"MODIFIED","object":` + webPod + "}\n" + `{"type":"DELETED","object":` + webPod + "}\n"
	c.check(c.run("delete", "pod", "web"), result{0, "pod \"web\" deleted from shop namespace\n", ""})
	if len(c.asked) != 3 || c.asked[2] != watched {
		t.Errorf("asked %s", c.asked)
	}
	// Another object of the name means that ours is gone.
	c.answers["GET "+path] = strings.Replace(webPod, "u1", "u2", 1)
	c.check(c.run("delete", "po/web", "--now"), result{0, "pod \"web\" deleted from shop namespace\n", ""})
	if len(c.asked) != 2 || !strings.Contains(c.asked[0], `"gracePeriodSeconds":1`) || !strings.Contains(c.asked[0], `"propagationPolicy":"Background"`) {
		t.Errorf("asked %s", c.asked)
	}
	c.check(c.run("delete", "po/web", "--grace-period=0", "--wait=false"), result{0, "pod \"web\" deleted from shop namespace\n", ""})
	if len(c.asked) != 1 || !strings.Contains(c.asked[0], `"gracePeriodSeconds":1`) {
		t.Errorf("asked %s", c.asked)
	}
	if got := c.run("delete", "po/web", "--force", "--wait=false"); got.out != "pod \"web\" force deleted from shop namespace\n" ||
		!strings.HasPrefix(got.err, "Warning: Immediate deletion") || !strings.Contains(c.asked[0], `"gracePeriodSeconds":0`) {
		t.Errorf("run(delete po/web --force --wait=false) = %+v and asked %s, want web force deleted, a warning and gracePeriodSeconds 0",
			got, c.asked)
	}
	c.answers["DELETE /api/v1/nodes/a"] = `{"kind":"Status","status":"Success","details":{"uid":"n"}}`
	c.check(c.run("delete", "node", "a"), result{0, "node \"a\" deleted\n", ""})
	c.check(c.run("delete", "pods", "none"), result{1, "", "Error from server (NotFound): pods \"none\" not found\n"})
	c.check(c.run("delete", "pods"), result{1, "", "error: resource(s) were provided, but no name was specified\n"})
	c.check(c.run("delete", "po/web", "--now", "--grace-period=3"), result{1, "", "error: --now and --grace-period cannot be specified together\n"})
}

func TestKubeconfigIsFound(t *testing.T) {
	c := newCluster(t)
	c.answers["GET /api/v1/nodes"] = fmt.Sprintf(podTable, "")
	t.Chdir(t.TempDir())
	run := func(list, home string) result {
		var out, err bytes.Buffer
		code := execute(context.Background(), []string{"get", "nodes"}, environment{Out: &out, Err: &err, Home: home,
			Getenv: func(name string) string { return map[string]string{"KUBECONFIG": list}[name] }})
		return result{code, out.String(), err.String()}
	}
	found := result{0, "", "No resources found\n"}
	missing := filepath.Join(t.TempDir(), "missing")
	c.check(run(missing+string(filepath.ListSeparator)+c.kubeconfig, ""), found)
	if got := run(missing, ""); got.code != 1 || !strings.Contains(got.err, missing) {
		t.Errorf("run(get nodes) with KUBECONFIG=%s = %+v, want code 1 and an error that names the file", missing, got)
	}
	home := t.TempDir()
	if got := run("", home); got.code != 1 || !strings.Contains(got.err, filepath.Join(home, ".kube", "config")) {
		t.Errorf("run(get nodes) with the home %s = %+v, want code 1 and an error that names .kube/config there", home, got)
	}
	data, err := os.ReadFile(c.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(home, ".kube", "config"), ".planekit/admin.kubeconfig"} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		c.check(run("", home), found)
		home = t.TempDir() // next only the one nearby is left
	}
}

func TestErrors(t *testing.T) {
	c := newCluster(t)
	k, err := kubeconfig.Load(c.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	k.Clusters["c"] = kubeconfig.Cluster{Server: "http://127.0.0.1:1"}
	if err := k.Write(c.kubeconfig); err != nil {
		t.Fatal(err)
	}
	if got := c.run("get", "pods"); got.code != 1 || !strings.HasPrefix(got.err, "The connection to the server was refused") {
		t.Errorf("run(get pods) without a server = %+v, want code 1 and The connection to the server was refused", got)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out bytes.Buffer
	if code := execute(ctx, []string{"get", "pods", "--kubeconfig=" + c.kubeconfig}, environment{Out: &out, Err: &out}); code != 130 || out.Len() > 0 {
		t.Errorf("interrupted: %d %s", code, &out)
	}
}
