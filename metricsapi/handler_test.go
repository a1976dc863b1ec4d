package metricsapi_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/metricsapi"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestHandler asks for everything that is served, and for what is not.
func TestHandler(t *testing.T) {
	run(t, func(c *cluster) {
		c.addPod("default", "web", "1", "node-1", "b", "a")
		c.addPod("kube-system", "dns", "2", "node-2", "a")
		c.addPod("default", "pending", "3", "", "a")
		begin := time.Now()
		for _, node := range []string{"node-1", "node-2"} {
			c.says(node, uses(begin))
		}
		c.rounds(2)
		const web = `{"kind":"PodMetrics","apiVersion":"metrics.k8s.io/v1beta1","metadata":{"name":"web","namespace":"default","creationTimestamp":"2000-01-01T00:00:30Z","labels":{"app":"web"}},` +
			`"timestamp":"2000-01-01T00:00:15Z","window":"15s","containers":[{"name":"a","usage":{"cpu":"1","memory":"1Mi"}},{"name":"b","usage":{"cpu":"2","memory":"1Mi"}}]}`
		const table = "application/json;as=Table;v=v1;g=meta.k8s.io"
		const all = "/apis/metrics.k8s.io/v1beta1/"
		for _, test := range []struct {
			method, path, accept string
			code                 int
			want                 string
		}{
			{"GET", all + "namespaces/default/pods/web", "", 200, web},
			{"GET", all + "namespaces/default/pods", "application/vnd.kubernetes.protobuf, application/json", 200, `"items":[` + web + `]}`},
			{"HEAD", all + "pods", "*/*", 200, ""},
			{"GET", all + "pods?labelSelector=app+in+(dns,web)", "", 200, `{"name":"dns","namespace":"kube-system"`},
			{"GET", all + "pods?labelSelector=app!=web", "", 200, `"items":[{"kind":"PodMetrics","apiVersion":"metrics.k8s.io/v1beta1","metadata":{"name":"dns"`},
			{"GET", all + "pods?fieldSelector=metadata.namespace=default&limit=1", "", 200, `"items":[` + web + `]}`},
			{"GET", all + "nodes?labelSelector=name=node-2", "", 200, `"items":[{"kind":"NodeMetrics","apiVersion":"metrics.k8s.io/v1beta1","metadata":{"name":"node-2",`},
			{"GET", all + "nodes?watch=false", "", 200, `{"name":"node-2",`},
			{"GET", all + "pods", table, 200, `"rows":[{"cells":["web","3","2Mi","15s"],"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"web",`},
			{"GET", all + "namespaces/default/pods?includeObject=Object", "application/json;as=Table;v=v1beta1;g=meta.k8s.io, " + table, 200, `"object":` + web},
			{"GET", all + "nodes/node-1?includeObject=None", table + ",application/json", 200, `"rows":[{"cells":["node-1","1","2Mi","15s"],"object":null}]}`},
			{"GET", "/apis", "", 200, `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"metrics.k8s.io","versions":[{"groupVersion":"metrics.k8s.io/v1beta1","version":"v1beta1"}]`},
			{"GET", "/apis/metrics.k8s.io", "", 200, `{"kind":"APIGroup","apiVersion":"v1","name":"metrics.k8s.io"`},
			{"GET", "/apis/metrics.k8s.io/v1beta1", "", 200, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"metrics.k8s.io/v1beta1","resources":[{"name":"nodes","singularName":"","namespaced":false,"kind":"NodeMetrics","verbs":["get","list"]},`},
			{"GET", "/healthz", "", 200, "ok"}, {"GET", "/livez", "", 200, "ok"}, {"GET", "/readyz", "", 200, "ok"},

			{"GET", all + "nodes/node-3", "", 404, `nodes.metrics.k8s.io \"node-3\" not found`},
			{"GET", all + "nodes/none", "", 404, `nodes.metrics.k8s.io \"none\" not found`},
			{"GET", all + "namespaces/default/pods/pending", "", 404, `pods.metrics.k8s.io \"default/pending\" not found`},
			{"GET", all + "pods/web", "", 404, "could not find the requested resource"},
			{"GET", all + "namespaces//pods", "", 404, "could not find"},
			{"GET", all + "namespaces/default/nodes", "", 404, "could not find"},
			{"GET", all + "nodes/node-1/status", "", 404, "could not find"},
			{"GET", all + "services", "", 404, "could not find"},
			{"GET", "/apis/metrics.k8s.io/v1/nodes", "", 404, "could not find"},
			{"GET", "/openapi/v2", "", 404, "could not find"},
			{"POST", all + "nodes", "", 405, `"reason":"MethodNotAllowed"`},
			{"DELETE", "/healthz", "", 405, `"reason":"MethodNotAllowed"`},
			{"GET", all + "nodes?watch=true", "", 405, `watch is not supported on resources of kind \"nodes.metrics.k8s.io\"`},
			{"GET", all + "pods", "application/vnd.kubernetes.protobuf", 406, `"reason":"NotAcceptable"`},
			{"GET", all + "pods", "application/json;q=0, text/html", 406, "only the following media types are accepted"},
			{"GET", all + "pods?labelSelector=a+b+c", "", 400, "labelSelector: unable to parse"},
			{"GET", all + "pods?fieldSelector=spec.nodeName=node-1", "", 400, "fieldSelector: field label not supported: spec.nodeName"},
			{"GET", all + "pods?fieldSelector=metadata.name", "", 400, "fieldSelector: invalid"},
			{"GET", all + "pods?continue=x", "", 400, "continue: "},
		} {
			r := httptest.NewRequest(test.method, test.path, nil)
			if test.accept != "" {
				r.Header.Set("Accept", test.accept)
			}
			answer := httptest.NewRecorder()
			c.server.ServeHTTP(answer, r)
			body := answer.Body.String()
			if answer.Code != test.code || !strings.Contains(body, test.want) {
				t.Errorf("%s %s (%s): %d %s\nwant %d %s", test.method, test.path, test.accept, answer.Code, body, test.code, test.want)
			}
			var status metav1.Status
			if test.code >= 400 && (json.Unmarshal([]byte(body), &status) != nil || int(status.Code) != test.code || status.Kind != "Status") {
				t.Errorf("%s %s: %s, want a Status with the code %d", test.method, test.path, body, test.code)
			}
		}
	}, "node-1", "node-2", "node-3")
}

// TestAttributes: what is asked for is what must be allowed.
func TestAttributes(t *testing.T) {
	who := &user.Info{Name: "jane"}
	resource := func(verb, resource, namespace, name string) authz.Attributes {
		return authz.Attributes{User: who, Verb: verb, Group: "metrics.k8s.io", Version: "v1beta1", Resource: resource, Namespace: namespace, Name: name}
	}
	const all = "/apis/metrics.k8s.io/v1beta1/"
	for request, want := range map[string]authz.Attributes{
		"GET " + all + "nodes":                       resource("list", "nodes", "", ""),
		"HEAD " + all + "nodes/a":                    resource("get", "nodes", "", "a"),
		"GET " + all + "pods":                        resource("list", "pods", "", ""),
		"GET " + all + "pods?watch=1":                resource("watch", "pods", "", ""),
		"GET " + all + "namespaces/default/pods":     resource("list", "pods", "default", ""),
		"GET " + all + "namespaces/default/pods/web": resource("get", "pods", "default", "web"),
		"POST " + all + "nodes":                      resource("post", "nodes", "", ""),
		"GET /apis/metrics.k8s.io":                   {User: who, Verb: "get", Path: "/apis/metrics.k8s.io"},
		"GET " + all + "pods/web":                    {User: who, Verb: "get", Path: all + "pods/web"},
	} {
		method, path, _ := strings.Cut(request, " ")
		r := httptest.NewRequest(method, path, nil)
		if got := metricsapi.Attributes(r.WithContext(user.NewContext(r.Context(), who))); !reflect.DeepEqual(got, want) {
			t.Errorf("Attributes(%s) = %+v, want %+v", request, got, want)
		}
	}
}

// TestHandlerWhileAsked lists while kubelets are asked.
func TestHandlerWhileAsked(t *testing.T) {
	run(t, func(c *cluster) {
		c.addPod("default", "web", "1", "node-1", "a", "b")
		c.says("node-1", uses(time.Now()))
		for range 20 {
			done := make(chan bool)
			go func() {
				defer close(done)
				for range 20 {
					if code, body := c.ask("pods"); code != http.StatusOK {
						t.Error(code, body)
					}
				}
			}()
			<-time.After(resolution)
			<-done
		}
	}, "node-1")
}
