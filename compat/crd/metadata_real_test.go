//go:build definitions

package crd

import (
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/planekit/planekit/compat/stock"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/planetest"
)

// pluginSides starts a stock kube-apiserver, and ours with its admission plugins.
func pluginSides(t *testing.T) []*side {
	t.Helper()
	bin, err := filepath.Abs("../../bin/stock")
	if err != nil {
		t.Fatal(err)
	}
	still := planetest.With(func(c *plane.Config) { c.NoControllers, c.NoScheduler = true, true })
	theirs, ours := stock.NewServer(t, bin), planetest.Start(t, planetest.CustomResources(), still).REST("admin", "system:masters")
	pair, err := tls.X509KeyPair(ours.CertData, ours.KeyData)
	if err != nil {
		t.Fatal(err)
	}
	client := func(c *tls.Config) *http.Client {
		c.InsecureSkipVerify = true
		web := &http.Client{Transport: &http.Transport{TLSClientConfig: c}}
		t.Cleanup(web.CloseIdleConnections)
		return web
	}
	return []*side{
		{t: t, client: client(&tls.Config{}), base: theirs.URL, token: theirs.Token},
		{t: t, client: client(&tls.Config{Certificates: []tls.Certificate{pair}}), base: ours.Host},
	}
}

// metadataHook is a mutating and a validating webhook. It answers with the patch in its field.
type metadataHook struct {
	*httptest.Server
	mu      sync.Mutex // guards the fields below
	patch   string
	reviews []string
}

func startMetadataHook(t *testing.T) *metadataHook {
	h := &metadataHook{}
	h.Server = httptest.NewTLSServer(h)
	t.Cleanup(h.Close)
	return h
}

func (h *metadataHook) setPatch(patch string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.patch = patch
}

func (h *metadataHook) took() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := strings.Join(h.reviews, "\n")
	h.reviews = nil
	return out
}

func (h *metadataHook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := reviewed(w, r)
	if q == nil {
		return
	}
	response := map[string]any{"uid": q["uid"], "allowed": true}
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.URL.Path == "/mutate" && h.patch != "" {
		response["patch"], response["patchType"] = []byte(h.patch), "JSONPatch"
	}
	delete(q, "userInfo")
	text := sameAnswer(q, 0)
	h.reviews = append(h.reviews, r.URL.Path+" "+generated.ReplaceAllString(text, "SUFFIX\""))
	_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
}

// webhooks lets s ask h about all objects of some resources.
func (s *side) webhooks(h *metadataHook) {
	s.t.Helper()
	bundle, _ := json.Marshal(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw}))
	for _, kind := range []string{"mutate", "validate"} {
		plural := map[string]string{"mutate": "mutatingwebhookconfigurations", "validate": "validatingwebhookconfigurations"}[kind]
		s.want(201, "POST", "/apis/admissionregistration.k8s.io/v1/"+plural, fmt.Sprintf(`{"metadata":{"name":"all"},"webhooks":[{"name":"all.example.com",
			"sideEffects":"None","admissionReviewVersions":["v1"],"namespaceSelector":{"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"NotIn","values":["kube-system"]}]},
			"rules":[{"apiGroups":["","apps","example.com","rbac.authorization.k8s.io"],"apiVersions":["*"],"operations":["*"],
			"resources":["configmaps","deployments","deployments/*","pods","pods/*","doors","doors/*","bottles","bottles/*","replicasets/*","statefulsets/*","replicationcontrollers/*","namespaces","services","clusterroles"]}],
			"clientConfig":{"url":"%s/%s","caBundle":%s}}]}`, h.URL, kind, bundle))
	}
	await(s.t, "webhooks", func() bool {
		h.took()
		s.want(201, "POST", "/api/v1/namespaces/default/configmaps?dryRun=All", `{"metadata":{"name":"probe"}}`)
		asked := h.took()
		return strings.Contains(asked, "/mutate ") && strings.Contains(asked, "/validate ")
	})
}

// systemFields are fields of metadata that a client may not set.
const systemFields = `"uid":"0b7d9f3e-1111-2222-3333-444455556666","creationTimestamp":"2020-01-01T00:00:00Z","deletionTimestamp":"2020-01-01T00:00:01Z",` +
	`"deletionGracePeriodSeconds":7,"selfLink":"/self","generation":7`

const (
	mapsPath    = "/api/v1/namespaces/default/configmaps"
	doorsPath   = "/apis/example.com/v1/namespaces/default/doors"
	deployPath  = "/apis/apps/v1/namespaces/default/deployments"
	rolesPath   = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
	roleVersion = `"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole"`
	owner       = `{"apiVersion":"v1","kind":"ConfigMap","name":"one","uid":"u"}`
	workload    = `"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}`
)

// creates are new objects of clients that say what only the server may.
func creates() []request {
	meta := func(name string) string { return fmt.Sprintf(`{"metadata":{%s,%s}`, name, systemFields) }
	door := func(metadata string) string {
		return `{"apiVersion":"example.com/v1","kind":"Door","metadata":{` + metadata + `},"spec":{"a":"x"}}`
	}
	return []request{
		{"POST", mapsPath, meta(`"name":"one"`) + `}`, ""},
		{"POST", mapsPath, meta(`"generateName":"one-"`) + `}`, ""},
		{"POST", mapsPath + "?dryRun=All", meta(`"generateName":"one-"`) + `}`, ""},
		{"POST", mapsPath + "?dryRun=All", `{"metadata":{"name":"rv","resourceVersion":"5"}}`, ""},
		{"POST", "/api/v1/namespaces/default/pods", meta(`"generateName":"one-"`) + `,"spec":{"containers":[{"name":"c","image":"i"}]}}`, ""},
		{"POST", "/api/v1/namespaces/default/services", meta(`"name":"one"`) + `,"spec":{"ports":[{"port":80}],"clusterIP":"None"}}`, ""},
		{"POST", "/api/v1/namespaces", meta(`"name":"one"`) + `}`, ""},
		{"POST", deployPath, meta(`"name":"one"`) + `,` + workload + `}`, ""},
		{"POST", doorsPath, door(`"name":"one",` + systemFields), ""},
		{"POST", doorsPath, door(`"generateName":"one-"`), ""},
		{"PATCH", mapsPath + "/two?fieldManager=m", `{"apiVersion":"v1","kind":"ConfigMap",` + strings.TrimPrefix(meta(`"name":"two"`), "{") + `}`, applyPatch},
		{"PATCH", mapsPath + "/three?fieldManager=m", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"three","creationTimestamp":"2020-01-01T00:00:00Z","generation":7}}`, applyPatch},
		{"PATCH", mapsPath + "/deleted?fieldManager=m", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"deleted","deletionTimestamp":"2020-01-01T00:00:00Z"}}`, applyPatch},
		{"PATCH", doorsPath + "/three?fieldManager=m", door(`"name":"three","creationTimestamp":"2020-01-01T00:00:00Z","generation":7`), applyPatch},
		{"POST", mapsPath, `{"metadata":{"name":"owned","ownerReferences":[` + owner + `,` + owner + `]}}`, ""},
		{"PUT", mapsPath + "/owned", `{"metadata":{"name":"owned","ownerReferences":[` + owner + `,` + owner + `]}}`, ""},
		{"PATCH", mapsPath + "/owned", `{"metadata":{"ownerReferences":[` + owner + `,` + owner + `]}}`, mergePatch},
		{"POST", "/api/v1/namespaces", `{"metadata":{"name":"two","namespace":"y"}}`, ""},
		{"POST", rolesPath, `{"metadata":{"name":"two","namespace":"y"}}`, ""},
		{"PUT", rolesPath + "/two", `{"metadata":{"name":"two","namespace":"y","labels":{"a":"b"}}}`, ""},
		{"PATCH", rolesPath + "/two", `{"metadata":{"namespace":"y","labels":{"a":"c"}}}`, mergePatch},
		{"PATCH", rolesPath + "/two?fieldManager=m&force=true", `{` + roleVersion + `,"metadata":{"name":"two","namespace":"y","labels":{"a":"d"}}}`, applyPatch},
		{"PATCH", rolesPath + "/three?fieldManager=m&force=true", `{` + roleVersion + `,"metadata":{"name":"three","namespace":"y","labels":{"a":"d"}}}`, applyPatch},
		{"PATCH", mapsPath + "/three", `{"metadata":{"uid":"u"}}`, mergePatch},
		{"PUT", mapsPath + "/three", `{"metadata":{"name":"three","uid":"u"}}`, ""},
		{"PATCH", mapsPath + "/three?fieldManager=m", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"three","uid":"u"}}`, applyPatch},
		{"PATCH", mapsPath + "/three", `{"metadata":{"generation":55,"selfLink":"/x","creationTimestamp":"2020-01-01T00:00:00Z"}}`, mergePatch},
	}
}

// identity is a patch of a webhook that sets what only the server may.
const identity = `[{"op":"add","path":"/metadata/uid","value":"u"},{"op":"add","path":"/metadata/creationTimestamp","value":"2020-01-01T00:00:00Z"},
	{"op":"add","path":"/metadata/generation","value":9},{"op":"add","path":"/metadata/selfLink","value":"/x"}]`

// patchedCreates are new objects, and the patches of a webhook.
var patchedCreates = []struct{ patch, path, body string }{
	{identity, mapsPath, `{"metadata":{"name":"four"}}`},
	{identity, doorsPath, `{"apiVersion":"example.com/v1","kind":"Door","metadata":{"name":"four"},"spec":{"a":"x"}}`},
	{identity, deployPath, `{"metadata":{"name":"four"},` + workload + `}`},
	{`[{"op":"add","path":"/metadata/deletionTimestamp","value":"2020-01-01T00:00:00Z"}]`, mapsPath, `{"metadata":{"name":"six"}}`},
	{`[{"op":"add","path":"/metadata/name","value":"eight"}]`, mapsPath, `{"metadata":{"generateName":"one-"}}`},
	{`[{"op":"add","path":"/metadata/name","value":"nine"}]`, mapsPath, `{"metadata":{"name":"other"}}`},
	{`[{"op":"add","path":"/metadata/generateName","value":"ten-"}]`, mapsPath, `{"metadata":{"generateName":"one-"}}`},
	{`[{"op":"remove","path":"/metadata/managedFields"}]`, mapsPath, `{"metadata":{"name":"eleven"},"data":{"a":"b"}}`},
	{`[{"op":"replace","path":"/metadata/managedFields/0/manager","value":"hook"}]`, mapsPath, `{"metadata":{"name":"twelve"},"data":{"a":"b"}}`},
	{`[{"op":"replace","path":"/metadata/managedFields/0/operation","value":"nonsense"}]`, mapsPath, `{"metadata":{"name":"thirteen"},"data":{"a":"b"}}`},
	{`[{"op":"add","path":"/metadata/managedFields","value":[]}]`, mapsPath, `{"metadata":{"name":"empty"},"data":{"a":"b"}}`},
	{`[{"op":"add","path":"/metadata/namespace","value":"kube-system"}]`, mapsPath, `{"metadata":{"name":"fourteen"}}`},
	{`[{"op":"remove","path":"/metadata/namespace"}]`, mapsPath, `{"metadata":{"name":"fifteen"}}`},
	{`[{"op":"add","path":"/metadata/namespace","value":"x"}]`, "/api/v1/namespaces", `{"metadata":{"name":"sixteen"}}`},
}

// TestRealMetadata compares what admission webhooks are asked about new objects, and the objects whose metadata clients
// and webhooks have set.
func TestRealMetadata(t *testing.T) {
	h := startMetadataHook(t)
	sides := pluginSides(t)
	for i, s := range sides {
		s.install(strings.ReplaceAll(strings.ReplaceAll(bottles(), "Bottle", "Door"), "bottle", "door"))
		if i == 0 {
			s.want(201, "POST", "/api/v1/namespaces/default/serviceaccounts", `{"metadata":{"name":"default"}}`)
		}
		s.webhooks(h)
	}
	for _, r := range creates() {
		h.compare(t, sides, r)
	}
	for _, c := range patchedCreates {
		h.setPatch(c.patch)
		h.compare(t, sides, request{"POST", c.path, c.body, ""})
	}
	h.setPatch(`[{"op":"add","path":"/metadata/generation","value":30}]`)
	update := request{"PATCH", mapsPath + "/one", `{"data":{"a":"b"}}`, mergePatch}
	h.compare(t, sides, update)
	h.setPatch(`[{"op":"add","path":"/metadata/namespace","value":"x"}]`)
	h.compare(t, sides, update)
}

// compare compares the answers of the sides to r, and what they ask h about new objects and about scales. About an
// update of an object itself, kube-apiserver asks before it restores what the request may not change, and ours after it.
func (h *metadataHook) compare(t *testing.T, sides []*side, r request) {
	t.Helper()
	what := strings.ReplaceAll(r.method+" "+r.path+" "+r.body, "\n", " ")
	var reviews, answers []string
	for _, s := range sides {
		h.took()
		answer := sameAnswer(s.do(r.method, r.path, r.body, "Content-Type: "+r.contentType()))
		for _, w := range s.warnings {
			if !strings.Contains(w, "acts on it yet") { // a warning about a kind that planekit only stores
				answer += "\n" + w
			}
		}
		answers = append(answers, generated.ReplaceAllString(storageErrors.ReplaceAllString(answer, ""), `SUFFIX"`))
		reviews = append(reviews, h.took())
	}
	if answers[0] != answers[1] {
		t.Errorf("%s: %s\nwant %s", what, answers[1], answers[0])
	}
	asked := strings.Contains(reviews[0], `"CREATE"`) || strings.Contains(r.path, "/scale")
	if asked && reviews[0] != reviews[1] {
		t.Errorf("%s is reviewed as %s\nwant %s", what, reviews[1], reviews[0])
	}
}

var (
	// generated ends generated names.
	generated = regexp.MustCompile(`-[a-z0-9]{5}"`)
	// storageErrors begin the text of some conflicts of kube-apiserver, with the keys in its store.
	storageErrors = regexp.MustCompile(`StorageError: invalid object, Code: 4, Key: [^,]*, ResourceVersion: 0, AdditionalErrorMsg: `)
)
