package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// scalable is a server whose deployments have a scale, and which accepts autoscalers.
func scalable(t *testing.T) *cluster {
	c := newCluster(t)
	c.answers["GET /apis/apps/v1"] = `{"resources":[{"name":"deployments","singularName":"deployment","namespaced":true,"kind":"Deployment","shortNames":["deploy"]},
		{"name":"deployments/scale","namespaced":true,"kind":"Scale","group":"autoscaling","version":"v1"}]}`
	for _, namespace := range []string{"shop", "other"} {
		c.answers["GET /apis/apps/v1/namespaces/"+namespace+"/deployments/web"] = `{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"web"}}`
		c.answers["POST /apis/autoscaling/v2/namespaces/"+namespace+"/horizontalpodautoscalers"] = "echo"
	}
	c.answers["GET /api/v1/nodes/a"] = `{"kind":"Node","apiVersion":"v1","metadata":{"name":"a"}}`
	return c
}

const autoscaled = "horizontalpodautoscaler.autoscaling/web autoscaled"

func TestAutoscale(t *testing.T) {
	c := scalable(t)
	c.check(c.run("autoscale", "deploy/web", "--max=5", "--cpu=50%"), result{0, autoscaled + "\n", ""})
	want := `POST /apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers?fieldManager=planectl-autoscale ` +
		`{"kind":"HorizontalPodAutoscaler","apiVersion":"autoscaling/v2","metadata":{"name":"web","namespace":"shop"},` +
		`"spec":{"scaleTargetRef":{"kind":"Deployment","name":"web","apiVersion":"apps/v1"},"maxReplicas":5,"metrics":[{"type":"Resource","resource":` +
		`{"name":"cpu","target":{"type":"Utilization","averageUtilization":50}}}]},"status":{"desiredReplicas":0,"currentMetrics":null}}`
	if len(c.asked) != 2 || c.asked[1] != want {
		t.Errorf("asked %s\nwant %s", c.asked, want)
	}
	c.check(c.run("autoscale", "deployment", "web", "--max=5", "--min=2", "--dry-run=server", "--field-manager=me"), result{0, autoscaled + " (server dry run)\n", ""})
	if !strings.Contains(c.asked[1], "?dryRun=All&fieldManager=me ") || !strings.Contains(c.asked[1], `"minReplicas":2`) {
		t.Errorf("asked %s", c.asked)
	}
	const made = "horizontalpodautoscaler.autoscaling/"
	c.check(c.run("autoscale", "deploy/web", "--max=5", "--dry-run=client"), result{0, made + "web created (dry run)\n", ""})
	if len(c.asked) != 1 {
		t.Errorf("a dry run asked %s", c.asked)
	}
	c.check(c.run("autoscale", "deploy/web", "--max=5", "--name=x", "-o", "name"), result{0, made + "x\n", ""})
	c.check(c.run("autoscale", "deploy/web", "--max=5", "--cpu-percent=50"), result{0, autoscaled + "\n",
		"Flag --cpu-percent has been deprecated, Use --cpu with percentage or resource quantity format (e.g., '70%' for utilization or '500m' for milliCPU).\n"})
	c.check(c.run("autoscale", "deploy/gone", "deploy/web", "--max=5"), result{1, autoscaled + "\n", "Error from server (NotFound): deployments \"gone\" not found\n"})
	if got := c.run("autoscale", "deploy/web", "-n", "other", "--max=3", "--memory=1", "--dry-run=client", "-o", "yaml"); got.out != `apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: web
  namespace: other
spec:
  maxReplicas: 3
  metrics:
  - resource:
      name: memory
      target:
        averageValue: 1Mi
        type: AverageValue
    type: Resource
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: web
status:
  currentMetrics: null
  desiredReplicas: 0
` {
		t.Errorf("run(autoscale) with --memory=1 = %+v, want the YAML of an autoscaler other/web with 1Mi of memory and at most 3 replicas",
			got)
	}
}

// TestAutoscaleRefuses: what is wrong with the flags is said before the server is asked for anything.
func TestAutoscaleRefuses(t *testing.T) {
	c := scalable(t)
	for args, want := range map[string]string{
		"deploy/web":                          `error: required flag(s) "max" not set`,
		"deploy/web --max=0":                  "error: --max=MAXPODS is required and must be at least 1, max: 0",
		"deploy/web --max=2 --min=3":          "error: --max=MAXPODS must be larger or equal to --min=MINPODS, max: 2, min: 3",
		"deploy/web --max=2 --cpu=x":          "error: invalid resource cpu value: x",
		"deploy/web --max=2 --dry-run=maybe":  `error: Invalid dry-run value (maybe). Must be "none", "server", or "client".`,
		"deploy/web --max=2 -o xml":           `error: unable to match a printer suitable for the output format "xml", allowed formats are: json,name,yaml`,
		"deploy/web --max=2 -f x":             "error: when paths, URLs, or stdin is provided as input, you may not specify resource arguments as well",
		"deploy --max=2":                      "error: resource(s) were provided, but no name was specified",
		"--max=2":                             "error: you must specify the type of resource",
		"node/a --max=2":                      "error: cannot autoscale a Node: could not find scale subresource for /v1, Resource=nodes in discovery information",
		"-f /nothing/here --max=2":            "error: open /nothing/here: no such file or directory",
		"deploy/web --max=2 -n other --cpu=%": "error: invalid percentage value: ",
	} {
		c.check(c.run(append([]string{"autoscale"}, strings.Fields(args)...)...), result{1, "", want + "\n"})
	}
}

// TestAutoscaleFiles: objects of files are not looked up, and each has its autoscaler in its namespace.
func TestAutoscaleFiles(t *testing.T) {
	c := scalable(t)
	dir := t.TempDir()
	file := func(text string) string {
		path := filepath.Join(dir, "f.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const web, other = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: db, namespace: other}\n"
	path := file("# two\n---\n" + web + "---\n" + other)
	c.check(c.run("autoscale", "-f", path, "--max=2"), result{0, autoscaled + "\nhorizontalpodautoscaler.autoscaling/db autoscaled\n", ""})
	if len(c.asked) != 2 || !strings.Contains(c.asked[0], "/namespaces/shop/") || !strings.Contains(c.asked[1], "/namespaces/other/") {
		t.Errorf("asked %s", c.asked)
	}
	got := c.run("autoscale", "-f", path, "--max=2", "--dry-run=client", "-o", "yaml")
	if documents := strings.Split(got.out, "---\n"); len(documents) != 2 || !strings.Contains(documents[1], "name: db") || len(c.asked) != 0 {
		t.Errorf("run(autoscale -f %s --dry-run=client -o yaml) = %+v and asked %s, want two documents, the second of db, and no request",
			path, got, c.asked)
	}
	list := `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"}}]}`
	c.check(c.run("autoscale", "-f", file(list), "--max=2"), result{0, autoscaled + "\n", ""})
	for text, want := range map[string]string{
		other: "error: the namespace from the provided object \"other\" does not match the namespace \"shop\". You must pass '--namespace=other' to perform this operation.",
		"{kind: Thing, apiVersion: example.com/v1, metadata: {name: x}}": "error: resource mapping not found for name: \"x\" namespace: \"\" from \"" + path +
			"\": no matches for kind \"Thing\" in version \"example.com/v1\"\nensure CRDs are installed first",
		"{apiVersion: v1, metadata: {name: x}}":                                 "error: error parsing " + path + ": Object 'Kind' is missing",
		"{kind: Pod, metadata: {name: x}}":                                      "error: error parsing " + path + ": Object 'apiVersion' is missing",
		"{kind: Pod, apiVersion: v1}":                                           "error: error parsing " + path + ": resource name may not be empty",
		"{kind: Pod, apiVersion: v1, metadata: {name: ..}}":                     "error: " + path + ": invalid resource name \"..\": [may not be '..']",
		"{kind: Pod, apiVersion: v1, metadata: {name: x, namespace: a/b}}":      "error: " + path + ": invalid resource name \"a/b\": [may not contain '/']",
		"{kind: List, apiVersion: v1, items: [{kind: List, items: []}]}":        "error: error parsing " + path + ": Object 'apiVersion' is missing",
		"{kind: Node, apiVersion: v1, metadata: {name: x, namespace: another}}": "error: cannot autoscale a Node: could not find scale subresource for /v1, Resource=nodes in discovery information",
		"": "error: no objects passed to autoscale",
	} {
		c.check(c.run("autoscale", "-n", "shop", "-f", file(text), "--max=2"), result{1, "", want + "\n"})
	}
	var out, err bytes.Buffer
	code := execute(context.Background(), []string{"--kubeconfig=" + c.kubeconfig, "autoscale", "-f", "-", "--max=2"}, environment{
		In: strings.NewReader(web), Out: &out, Err: &err, Getenv: func(string) string { return "" }})
	c.check(result{code, out.String(), err.String()}, result{0, autoscaled + "\n", ""})
}

// FuzzDecodeManifests shows that each object that is accepted has a kind, a version and a name.
func FuzzDecodeManifests(f *testing.F) {
	f.Add([]byte("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n---\n# none\n---\n{}"))
	f.Add([]byte(`{"kind":"List","items":[{"kind":"A"}]}{"kind":"B"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := decodeManifests(data)
		if err != nil {
			return
		}
		for _, m := range all {
			if m.Kind == "" || m.APIVersion == "" || m.Metadata.Name == "" {
				t.Errorf("decodeManifests(%q) has %+v, want an apiVersion, a kind and a name", data, m)
			}
		}
	})
}
