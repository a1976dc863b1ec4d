package kube_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/kube"
)

// warned sends a body and returns the code and the texts of the warnings.
func (c client) warned(method, path, body string) (int, []string) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.server.URL+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Content-Type", map[string]string{"PATCH": "application/merge-patch+json"}[method])
	if method != "PATCH" {
		r.Header.Set("Content-Type", "application/yaml")
	}
	response, err := c.server.Client().Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	if text, err := io.ReadAll(response.Body); err != nil || response.StatusCode >= 300 {
		c.t.Logf("%s %s = %d %s", method, path, response.StatusCode, text)
	}
	var texts []string
	for _, header := range response.Header.Values("Warning") {
		text, _ := strings.CutPrefix(header, `299 - "`)
		texts = append(texts, strings.ReplaceAll(strings.TrimSuffix(text, `"`), `\"`, `"`))
	}
	return response.StatusCode, texts
}

const warnedPod = `
apiVersion: v1
kind: Pod
metadata:
  name: warn
  annotations: {scheduler.alpha.kubernetes.io/critical-pod: ""}
spec:
  nodeSelector: {beta.kubernetes.io/os: linux}
  imagePullSecrets: [{name: a}, {name: a}]
  hostAliases: [{ip: 1.2.3.4, hostnames: [a]}, {ip: 1.2.3.4, hostnames: [b]}]
  topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]
  containers:
  - name: c
    image: busybox
    env: [{name: A, value: "1"}, {name: A, value: "2"}, {name: A, value: "$(A)3"}]
    ports: [{containerPort: 80}, {containerPort: 80}]
    resources: {limits: {memory: 100m}}
`

// TestWarnings: kube-apiserver's warnings about a pod, in its words and order; the same about a template that is new or
// changed, and none about a change of something else.
func TestWarnings(t *testing.T) {
	c := client{t, apiservertest.Start(t, apiservertest.WithResources(kube.Resources()...)), "application/json"}
	code, got := c.warned("POST", "/api/v1/namespaces/team/pods", warnedPod)
	want := []string{
		`spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead`,
		`spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod`,
		`metadata.annotations[scheduler.alpha.kubernetes.io/critical-pod]: non-functional in v1.16+; use the "priorityClassName" field instead`,
		`spec.hostAliases[1].ip: duplicate ip "1.2.3.4"`,
		`spec.imagePullSecrets[1].name: duplicate name "a"`,
		`spec.containers[0].resources.limits[memory]: fractional byte value "100m" is invalid, must be an integer`,
		`spec.containers[0].resources.requests[memory]: fractional byte value "100m" is invalid, must be an integer`,
		`spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply`,
		`spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]`,
	}
	if code != 201 || !slices.Equal(got, want) {
		t.Errorf("POST of a pod = %d with the warnings\n%s\nwant 201 with\n%s", code, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if _, got := c.warned("PATCH", "/api/v1/namespaces/team/pods/warn", `{"metadata":{"labels":{"a":"b"}}}`); len(got) > 0 {
		t.Errorf("a change of a pod warns of %q, want nothing", got)
	}
	const deployments = "/apis/apps/v1/namespaces/team/deployments"
	code, got = c.warned("POST", deployments, `
metadata: {name: a.b}
spec:
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec:
      volumes: [{name: v, gitRepo: {repository: r}}]
      containers: [{name: c, image: i}]`)
	name := `metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [`
	volume := "spec.template.spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+"
	if code != 201 || len(got) != 2 || !strings.HasPrefix(got[0], name) || got[1] != volume {
		t.Errorf("POST of a deployment = %d with %q, want 201 with %q and %q", code, got, name, volume)
	}
	for body, want := range map[string][]string{`{"metadata":{"labels":{"a":"b"}}}`: nil, `{"spec":{"replicas":2}}`: {volume}} {
		if _, got := c.warned("PATCH", deployments+"/a.b", body); !slices.Equal(got, want) {
			t.Errorf("PATCH of a deployment with %s warns of %q, want %q", body, got, want)
		}
	}
}

// TestFinalizersWithoutDomains: the groups whose finalizers kube-apiserver does not look at take any.
func TestFinalizersWithoutDomains(t *testing.T) {
	c := client{t, apiservertest.Start(t, apiservertest.WithResources(kube.Resources()...)), "application/json"}
	for path, body := range map[string]string{
		"/apis/coordination.k8s.io/v1/namespaces/team/leases":                   `{metadata: {name: x, finalizers: [noslash]}, spec: {}}`,
		"/apis/node.k8s.io/v1/runtimeclasses":                                   `{metadata: {name: x, finalizers: [noslash]}, handler: h}`,
		"/apis/policy/v1/namespaces/team/poddisruptionbudgets":                  `{metadata: {name: x, finalizers: [noslash]}, spec: {minAvailable: 1}}`,
		"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations": `{metadata: {name: x, finalizers: [noslash]}}`,
	} {
		c.do("POST", path, body, 201)
	}
}

// TestDeletedJob: a delete of a job that names no propagation policy warns that its pods stay, as kube-apiserver does.
func TestDeletedJob(t *testing.T) {
	c := client{t, apiservertest.Start(t, apiservertest.WithResources(kube.Resources()...)), "application/json"}
	const jobs = "/apis/batch/v1/namespaces/team/jobs"
	c.do("POST", jobs, `{metadata: {name: x}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}`, 201)
	for body, want := range map[string]int{`{"dryRun":["All"]}`: 1, `{"dryRun":["All"],"propagationPolicy":"Orphan"}`: 0, `{"dryRun":["All"],"orphanDependents":true}`: 0} {
		if code, got := c.warned("DELETE", jobs+"/x", body); code != 200 || len(got) != want {
			t.Errorf("DELETE of a job with %s = %d with the warnings %q, want 200 with %d", body, code, got, want)
		}
	}
}

// TestFinalizersNeedDomains: a new finalizer of a built-in kind is a standard one or has a domain, on each kind of write.
func TestFinalizersNeedDomains(t *testing.T) {
	c := client{t, apiservertest.Start(t, apiservertest.WithResources(kube.Resources()...)), "application/json"}
	const wrong = `metadata.finalizers[0]: Invalid value: \"noslash\": name is neither a standard finalizer name nor is it fully qualified`
	for path, body := range map[string]string{
		"/api/v1/namespaces/team/configmaps":              `{metadata: {name: x, finalizers: [FINALIZER]}}`,
		"/apis/rbac.authorization.k8s.io/v1/clusterroles": `{metadata: {name: x, finalizers: [FINALIZER]}}`,
		"/api/v1/namespaces/team/pods":                    `{metadata: {name: x, finalizers: [FINALIZER]}, spec: {containers: [{name: c, image: i}]}}`,
		"/apis/storage.k8s.io/v1/storageclasses":          `{metadata: {name: x, finalizers: [FINALIZER]}, provisioner: p.example.com/p}`,
	} {
		if got := string(c.do("POST", path, strings.Replace(body, "FINALIZER", "noslash", 1), 422)); !strings.Contains(got, wrong) {
			t.Errorf("POST %s = %s, want %s", path, got, wrong)
		}
		c.do("POST", path, strings.Replace(body, "FINALIZER", "example.com/x, orphan", 1), 201)
		if code, _ := c.warned("PATCH", path+"/x", `{"metadata":{"finalizers":["noslash"]}}`); code != 422 {
			t.Errorf("PATCH %s with a finalizer without a domain = %d, want 422", path, code)
		}
		if code, _ := c.warned("PATCH", path+"/x", `{"metadata":{"finalizers":["example.com/y"]}}`); code != 200 {
			t.Errorf("PATCH %s with a finalizer with a domain = %d, want 200", path, code)
		}
	}
}

// TestGatedPodsMayNarrow: while a pod waits for its gates, its nodeSelector and node affinity may become stricter, and
// nothing else.
func TestGatedPodsMayNarrow(t *testing.T) {
	c := client{t, apiservertest.Start(t, apiservertest.WithResources(kube.Resources()...)), "application/json"}
	const (
		k = `{"key":"k","operator":"Exists"}`
		l = `{"key":"l","operator":"Exists"}`
	)
	required := func(terms ...string) string {
		return `"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[` + strings.Join(terms, ",") + `]}}}`
	}
	term := func(expressions string) string { return `{"matchExpressions":[` + expressions + `]}` }
	const preferred = `"affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,"preference":{"matchExpressions":[` + k + `]}}]}}`
	for name, test := range map[string]struct {
		had, patch string
		code       int
	}{
		"selector":                 {"", `"nodeSelector":{"a":"b"}`, 200},
		"selector and gate":        {"", `"schedulingGates":null,"nodeSelector":{"a":"b"}`, 200},
		"affinity":                 {"", required(term(k)), 200},
		"narrower affinity":        {required(term(k)), required(term(k + "," + l)), 200},
		"preferred":                {"", preferred, 200},
		"no preferred":             {preferred, `"affinity":null`, 200},
		"another selector":         {`"nodeSelector":{"a":"b"}`, `"nodeSelector":{"a":"c"}`, 422},
		"no selector":              {`"nodeSelector":{"a":"b"}`, `"nodeSelector":null`, 422},
		"another affinity":         {required(term(k)), required(term(l)), 422},
		"another term":             {required(term(k)), required(term(k), term(l)), 422},
		"no affinity":              {required(term(k)), `"affinity":null`, 422},
		"requirements for nothing": {required(`{}`), required(term(k)), 422},
		"affinity to pods":         {"", `"affinity":{"podAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,"podAffinityTerm":{"topologyKey":"zone"}}]}}`, 422},
		"an image is no change":    {"", `"containers":[{"name":"c","image":"other"}]`, 200},
	} {
		body := `{"metadata":{"name":"p"},"spec":{"schedulingGates":[{"name":"example.com/a"}],"containers":[{"name":"c","image":"i"}],` + strings.TrimSuffix(test.had+",", ",") + `}}`
		c.do("POST", "/api/v1/namespaces/team/pods", strings.Replace(body, ",}", "}", 1), 201)
		if code, _ := c.warned("PATCH", "/api/v1/namespaces/team/pods/p", `{"spec":{`+test.patch+`}}`); code != test.code {
			t.Errorf("%s: PATCH of a gated pod = %d, want %d", name, code, test.code)
		}
		c.do("DELETE", "/api/v1/namespaces/team/pods/p", "", 200)
	}
}

// TestAppArmorAnnotations: the annotation with the profile of a container stands for the field of a new pod, with a warning,
// must agree with it, and cannot change.
func TestAppArmorAnnotations(t *testing.T) {
	c := client{t, apiservertest.Start(t, apiservertest.WithResources(kube.Resources()...)), "application/json"}
	const (
		pods = "/api/v1/namespaces/team/pods"
		key  = "container.apparmor.security.beta.kubernetes.io/c"
	)
	pod := func(name, annotation, ofPod, ofContainer string) string {
		return `{metadata: {name: ` + name + `, annotations: {` + key + `: "` + annotation + `"}}, spec: {securityContext: {` + ofPod + `}, containers: [{name: c, image: i, securityContext: {` + ofContainer + `}}]}}`
	}
	old := []string{"metadata.annotations[" + key + `]: deprecated since v1.30; use the "appArmorProfile" field instead`}
	for _, test := range []struct {
		name, annotation, ofPod, ofContainer string
		code                                 int
		warnings                             []string
		want                                 string // in the object or the error
	}{
		{"default", "runtime/default", "", "", 201, old, `"securityContext":{"appArmorProfile":{"type":"RuntimeDefault"}}`},
		{"unconfined", "unconfined", "appArmorProfile: {type: RuntimeDefault}", "", 201, old, `"securityContext":{"appArmorProfile":{"type":"Unconfined"}}`},
		{"local", "localhost/a", "", "", 201, old, `"appArmorProfile":{"type":"Localhost","localhostProfile":"a"}`},
		{"same", "runtime/default", "appArmorProfile: {type: RuntimeDefault}", "", 201, nil, `"appArmorProfile":{"type":"RuntimeDefault"}`},
		{"both", "unconfined", "", "appArmorProfile: {type: Unconfined}", 201, nil, `"appArmorProfile":{"type":"Unconfined"}`},
		{"empty", "", "", "", 201, old, key},
		{"none", "wrong", "", "", 422, nil, `metadata.annotations[` + key + `]: Invalid value: \"wrong\": invalid AppArmor profile name: \"wrong\"`},
		{"other", "unconfined", "", "appArmorProfile: {type: RuntimeDefault}", 422, nil, `spec.containers[0].securityContext.appArmorProfile.type: Forbidden: apparmor type in annotation and field must match`},
		{"names", "localhost/a", "", "appArmorProfile: {type: Localhost, localhostProfile: b}", 422, nil, `spec.containers[0].securityContext.appArmorProfile.localhostProfile: Forbidden: apparmor profile in annotation and field must match`},
	} {
		body := pod(test.name, test.annotation, test.ofPod, test.ofContainer)
		dry := string(c.do("POST", pods+"?dryRun=All", body, test.code))
		if text := strings.ReplaceAll(dry, `\\\"`, `\"`); !strings.Contains(text, test.want) {
			t.Errorf("POST of pod %s = %s\nwant it to contain %s", test.name, text, test.want)
		}
		if code, got := c.warned("POST", pods, body); code != test.code || test.code == 201 && !slices.Equal(got, test.warnings) {
			t.Errorf("POST of pod %s = %d with the warnings %q, want %d with %q", test.name, code, got, test.code, test.warnings)
		}
	}
	if got := string(c.do("POST", pods, strings.Replace(pod("lost", "unconfined", "", ""), "name: c,", "name: d,", 1), 422)); !strings.Contains(got, "container not found") {
		t.Errorf("POST of a pod with a profile for another container = %s, want: container not found", got)
	}
	for body, want := range map[string]int{
		`{"metadata":{"annotations":{"` + key + `":"unconfined"}}}`:                                      422,
		`{"metadata":{"annotations":{"` + key + `":null}}}`:                                              422,
		`{"metadata":{"annotations":{"container.apparmor.security.beta.kubernetes.io/d":"unconfined"}}}`: 422,
		`{"metadata":{"annotations":{"a":"b"}}}`:                                                         200,
	} {
		if code, _ := c.warned("PATCH", pods+"/default", body); code != want {
			t.Errorf("PATCH of a pod with a profile by %s = %d, want %d", body, code, want)
		}
	}
}
