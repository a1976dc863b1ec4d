package requests

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/compat/stock"
	"github.com/planekit/planekit/plane/planetest"
)

// side is one of the two servers.
type side struct {
	name, url, token string
	client           *http.Client
}

// response holds the parts that are compared.
type response struct {
	code     int
	kind     string
	warnings []string
	marked   bool // with a deletionTimestamp
}

func (s *side) send(t *testing.T, r request) response {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), r.method, s.url+r.path, strings.NewReader(r.body))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/yaml")
	if r.method == "PATCH" {
		q.Header.Set("Content-Type", "application/merge-patch+json")
	}
	if s.token != "" {
		q.Header.Set("Authorization", "Bearer "+s.token)
	}
	for name, value := range r.header {
		q.Header.Set(name, value)
	}
	got, err := s.client.Do(q)
	if err != nil {
		t.Fatalf("%s %s at %s: %v", r.method, r.path, s.name, err)
	}
	defer got.Body.Close()
	out := response{code: got.StatusCode}
	for _, header := range got.Header.Values("Warning") {
		text, _ := strings.CutPrefix(header, `299 - "`)
		out.warnings = append(out.warnings, strings.TrimSuffix(text, `"`))
	}
	if got.StatusCode == http.StatusSwitchingProtocols || r.method == "GET" && strings.Contains(r.path, "watch") {
		return out // which goes on
	}
	data, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatalf("%s %s at %s: %v", r.method, r.path, s.name, err)
	}
	var object struct {
		Kind     string
		Metadata struct{ DeletionTimestamp *string }
	}
	if json.Unmarshal(data, &object) == nil {
		out.kind, out.marked = object.Kind, object.Metadata.DeletionTimestamp != nil
	}
	return out
}

func (r response) String() string {
	return fmt.Sprintf("%d %s (marked %v) with the warnings\n  %s", r.code, r.kind, r.marked, strings.Join(r.warnings, "\n  "))
}

// request is sent to both.
type request struct {
	method, path, body string
	header             map[string]string
}

func post(path, body string) request  { return request{method: "POST", path: path, body: body} }
func patch(path, body string) request { return request{method: "PATCH", path: path, body: body} }
func get(path string) request         { return request{method: "GET", path: path} }
func remove(path string) request      { return request{method: "DELETE", path: path} }

const (
	core   = "/api/v1/namespaces/default/"
	apps   = "/apis/apps/v1/namespaces/default/"
	batch  = "/apis/batch/v1/namespaces/default/"
	stores = "/apis/storage.k8s.io/v1/"
)

// template is the pod of a workload.
func template(spec string) string {
	return `{metadata: {labels: {a: b}, annotations: {seccomp.security.alpha.kubernetes.io/pod: runtime/default, container.seccomp.security.alpha.kubernetes.io/c: runtime/default}}, spec: {` +
		spec + `containers: [{name: c, image: i}]}}`
}

func requests() []request {
	all := []request{
		// What a delete shows.
		post(core+"services", `{metadata: {name: x}, spec: {ports: [{port: 80}]}}`), remove(core + "services/x"),
		post(core+"serviceaccounts", `{metadata: {name: x}}`), remove(core + "serviceaccounts/x"),
		post(core+"resourcequotas", `{metadata: {name: x}}`), remove(core + "resourcequotas/x"),
		post(core+"podtemplates", `{metadata: {name: x}, template: {spec: {containers: [{name: c, image: i}]}}}`), remove(core + "podtemplates/x"),
		post(stores+"storageclasses", `{metadata: {name: x}, provisioner: example.com/x}`), remove(stores + "storageclasses/x"),
		post(stores+"csidrivers", `{metadata: {name: x}}`), remove(stores + "csidrivers/x"),
		post(stores+"csinodes", `{metadata: {name: x}, spec: {drivers: []}}`), remove(stores + "csinodes/x"),
		post(core+"pods", `{metadata: {name: x}, spec: {schedulerName: none, containers: [{name: c, image: i}]}}`),
		post(core+"pods/x/eviction", `{apiVersion: policy/v1beta1, kind: Eviction, metadata: {name: x}}`),
		post(core+"pods", `{metadata: {name: x}, spec: {schedulerName: none, containers: [{name: c, image: i}]}}`), remove(core + "pods/x"),
		post(core+"configmaps", `{metadata: {name: x}}`), remove(core + "configmaps/x"),
		post(core+"secrets", `{metadata: {name: x}}`), remove(core + "secrets/x"),
		post(core+"limitranges", `{metadata: {name: x}}`), remove(core + "limitranges/x"),
		// Queries.
		get("/api/v1/namespaces//configmaps?limit=1"), get("/apis/apps/v1/namespaces//deployments?limit=1"),
		get("/api/v1/pods?fieldSelector=status.podIPs%3D10.0.0.1"), get(core + "pods?limit=-1"),
		get(core + "pods?timeout=abc"), get(core + "pods?timeout=1ns"), get(core + "pods?timeout=1h"),
		post(core+"configmaps?timeout=abc", `{metadata: {name: timeout}}`),
		// Finalizers.
		post(core+"configmaps", `{metadata: {name: fin, finalizers: [noslash]}}`),
		post("/apis/rbac.authorization.k8s.io/v1/clusterroles", `{metadata: {name: fin, finalizers: [my.domain.without.slash]}}`),
		post(core+"configmaps", `{metadata: {name: fin}}`), patch(core+"configmaps/fin", `{"metadata":{"finalizers":["noslash"]}}`),
		patch(core+"configmaps/fin", `{"metadata":{"finalizers":["example.com/x"]}}`), remove(core + "configmaps/fin"),
		// Names.
		post(core+"pods?dryRun=All", `{metadata: {name: a.b}, spec: {containers: [{name: c, image: i}]}}`),
		// Watches by WebSocket, with a selector that is wrong.
		{method: "GET", path: "/api/v1/namespaces?watch=true&labelSelector=%3D%3D", header: map[string]string{
			"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "WKuHU3Ipi3J4Bgjqoyv5NQ==", "Origin": "https://x"}},
	}
	for _, path := range []string{core + "namespaces", "/api/v1/namespaces", "/api/v1/watch/namespaces", "/api/v1/watch/namespaces/default/configmaps"} {
		all = append(all, request{method: "GET", path: path + "?watch=true&timeoutSeconds=1", header: map[string]string{
			"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "WKuHU3Ipi3J4Bgjqoyv5NQ==", "Origin": "https://x"}})
	}
	// Warnings: of a pod and of each template.
	for i, spec := range []string{
		`nodeSelector: {beta.kubernetes.io/os: linux}, `,
		`imagePullSecrets: [{name: a}, {name: a}, {}], `,
		`hostAliases: [{ip: 1.2.3.4, hostnames: [a]}, {ip: 1.2.3.4, hostnames: [b]}], `,
		`topologySpreadConstraints: [{maxSkew: 1, topologyKey: failure-domain.beta.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}], `,
		`volumes: [{name: a, gitRepo: {repository: r}}, {name: b, glusterfs: {endpoints: e, path: p}}, {name: c, cephfs: {monitors: [m]}}, {name: d, rbd: {monitors: [m], image: i}}], `,
		`volumes: [{name: a, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1500m}}}}}}], `,
		`terminationGracePeriodSeconds: -1, `,
		`affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone}], preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: zone}}]}}, `,
		`affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: beta.kubernetes.io/arch, operator: Exists}]}]}, preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: node-role.kubernetes.io/master, operator: In, values: [a_]}]}}]}}, `,
		`dnsConfig: {nameservers: ["::ffff:1.2.3.4"]}, `,
		`initContainers: [{name: d, image: i, env: [{name: A, value: "1"}, {name: A, value: "$(A)"}, {name: A, value: "$(A)2"}, {name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}], `,
		`initContainers: [{name: d, image: i, ports: [{name: p, containerPort: 80}, {containerPort: 80}, {containerPort: 80, hostPort: 81}, {containerPort: 80, hostPort: 82, hostIP: 1.2.3.4}]}, {name: e, image: i, ports: [{name: p, containerPort: 81}]}], `,
		`initContainers: [{name: d, image: i, resources: {limits: {memory: 100m, ephemeral-storage: 1500m}, requests: {memory: 50m}}}], `,
		`hostNetwork: false, `,
	} {
		name := fmt.Sprint("w", i)
		selector := `selector: {matchLabels: {a: b}}`
		pod := `{metadata: {name: ` + name + `, annotations: {scheduler.alpha.kubernetes.io/critical-pod: "", security.alpha.kubernetes.io/sysctls: x}}, spec: {schedulerName: none, ` + spec + `containers: [{name: c, image: i}]}}`
		always, never := template(spec), strings.Replace(template(spec), "spec: {", "spec: {restartPolicy: Never, ", 1)
		all = append(all,
			post(core+"pods?dryRun=All", pod),
			post(core+"podtemplates?dryRun=All", `{metadata: {name: `+name+`}, template: `+always+`}`),
			post(core+"replicationcontrollers?dryRun=All", `{metadata: {name: `+name+`}, spec: {template: `+always+`}}`),
			post(apps+"deployments", `{metadata: {name: `+name+`}, spec: {replicas: 0, `+selector+`, template: `+always+`}}`),
			patch(apps+"deployments/"+name, `{"metadata":{"labels":{"x":"y"}}}`),
			patch(apps+"deployments/"+name, `{"spec":{"minReadySeconds":1}}`),
			post(apps+"replicasets?dryRun=All", `{metadata: {name: a.`+name+`}, spec: {`+selector+`, template: `+always+`}}`),
			post(apps+"daemonsets?dryRun=All", `{metadata: {name: `+name+`}, spec: {`+selector+`, template: `+always+`}}`),
			post(apps+"statefulsets?dryRun=All", `{metadata: {name: `+name+`}, spec: {revisionHistoryLimit: -1, `+selector+`, template: `+always+
				`, volumeClaimTemplates: [{metadata: {name: d}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1500m}}}}]}}`),
			post(batch+"jobs?dryRun=All", `{metadata: {name: `+name+`}, spec: {template: `+never+`}}`),
			post(batch+"cronjobs?dryRun=All", `{metadata: {name: `+name+`}, spec: {schedule: "* * * * *", jobTemplate: {spec: {template: `+never+`}}}}`),
		)
	}
	// What pods with gates may change.
	affinity := func(terms string) string {
		return `"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[` + terms + `]}}}`
	}
	const k, kl = `{"matchExpressions":[{"key":"k","operator":"Exists"}]}`, `{"matchExpressions":[{"key":"k","operator":"Exists"},{"key":"l","operator":"Exists"}]}`
	for i, test := range [][2]string{
		{``, `"nodeSelector":{"a":"b"}`}, {``, `"schedulingGates":null,"nodeSelector":{"a":"b"}`}, {``, affinity(k)},
		{`,` + affinity(k), affinity(kl)}, {`,` + affinity(kl), affinity(k)}, {`,` + affinity(k), affinity(k + "," + k)}, {`,` + affinity(k), `"affinity":null`},
		{`,"nodeSelector":{"a":"b"}`, `"nodeSelector":{"a":"c"}`}, {`,"nodeSelector":{"a":"b"}`, `"nodeSelector":null`}, {`,` + affinity(`{}`), affinity(k)},
	} {
		name := fmt.Sprint("gated", i)
		all = append(all,
			post(core+"pods", `{"metadata":{"name":"`+name+`"},"spec":{"schedulerName":"none","schedulingGates":[{"name":"example.com/a"}],"containers":[{"name":"c","image":"i"}]`+test[0]+`}}`),
			patch(core+"pods/"+name, `{"spec":{`+test[1]+`}}`), remove(core+"pods/"+name))
	}
	return all
}

// differs lists requests whose responses differ, with the reason.
var differs = map[string]string{
	"GET " + core + "pods?timeout=1ns": "kube-apiserver's 504 is text, and planekit's a Status",
}

// own matches the warnings about what nothing in a plane acts on.
var own = regexp.MustCompile(`^kind [A-Za-z]+: |^spec\.(clusterIP|jobTemplate): nothing |: nothing |: no controller |: no node mounts |: the scheduler reserves it; `)

// servers starts both servers.
func servers(t *testing.T) (theirs, ours *side) {
	t.Helper()
	bin, err := stock.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	reference := stock.NewServer(t, bin, "--disable-admission-plugins", "ServiceAccount")
	theirs = &side{name: "kube-apiserver", url: reference.URL, token: reference.Token,
		client: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}}
	access := planetest.Start(t).REST("admin", "system:masters")
	pair, err := tls.X509KeyPair(access.CertData, access.KeyData)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(access.CAData)
	ours = &side{name: "planekit", url: access.Host, client: &http.Client{Transport: &http.Transport{
		DialContext: access.Dial, TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}}}}
	t.Cleanup(func() {
		theirs.client.CloseIdleConnections()
		ours.client.CloseIdleConnections()
	})
	return theirs, ours
}

// TestSameResponses: both servers answer each request with the same code, kind and warnings.
func TestSameResponses(t *testing.T) {
	theirs, ours := servers(t)
	for _, r := range requests() {
		want, got := theirs.send(t, r), ours.send(t, r)
		got.warnings = slices.DeleteFunc(got.warnings, func(text string) bool { return own.MatchString(text) })
		name := r.method + " " + r.path
		if same := want.String() == got.String(); same == (differs[name] != "") {
			t.Errorf("%s %s\nis answered by planekit with %v\nand by kube-apiserver with %v\nand expected to differ: %q", name, r.body, got, want, differs[name])
		}
	}
}
