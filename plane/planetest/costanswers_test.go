package planetest_test

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/internal/used"
	"github.com/planekit/planekit/plane/planetest"
)

// hooks are the answers of webhooks, by the path at which they are called, to the review with a uid.
var hooks = map[string]func(w io.Writer, uid string){
	"message": func(w io.Writer, uid string) {
		review(w, uid, `"allowed":false,"status":{"message":"`+strings.Repeat("x", 5<<20)+`"}`)
	},
	"causes": func(w io.Writer, uid string) {
		review(w, uid, `"allowed":false,"status":{"details":{"causes":[`+strings.Repeat(`{},`, 1<<20)+`{}]}}`)
	},
	"warnings": func(w io.Writer, uid string) {
		review(w, uid, `"allowed":true,"warnings":[`+strings.Repeat(`"`+strings.Repeat("x", 100)+`",`, 50_000)+`""]`)
	},
	"annotations": func(w io.Writer, uid string) {
		var all strings.Builder
		for i := range 50_000 {
			fmt.Fprintf(&all, `"k%d":"%s",`, i, strings.Repeat("x", 50))
		}
		review(w, uid, `"allowed":true,"auditAnnotations":{`+all.String()+`"k":""}`)
	},
	"operations": func(w io.Writer, uid string) {
		review(w, uid, patch(`[`+strings.Repeat(`{"op":"add","path":"/data/x","value":"y"},`, 50_000)+`{"op":"add","path":"/data/x","value":"y"}]`))
	},
	"copies": func(w io.Writer, uid string) {
		review(w, uid, patch(`[{"op":"add","path":"/data/a","value":"`+strings.Repeat("x", 100_000)+`"}`+strings.Repeat(`,{"op":"copy","from":"/data","path":"/metadata/annotations"}`, 9000)+`]`))
	},
	"large object": func(w io.Writer, uid string) {
		review(w, uid, patch(`[{"op":"add","path":"/data/a","value":"`+strings.Repeat("x", 20<<20)+`"}]`))
	},
	"deep": func(w io.Writer, uid string) {
		review(w, uid, patch(`[{"op":"add","path":"/data/a","value":`+strings.Repeat("[", 1<<20)+strings.Repeat("]", 1<<20)+`}]`))
	},
	"endless": func(w io.Writer, _ string) {
		for range 400 {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
	},
	"empty values": func(w io.Writer, uid string) {
		review(w, uid, `"allowed":true,"x":[`+strings.Repeat("[],", 2<<20)+`[]]`)
	},
}

func patch(operations string) string {
	return `"allowed":true,"patchType":"JSONPatch","patch":"` + base64.StdEncoding.EncodeToString([]byte(operations)) + `"`
}

func review(w io.Writer, uid, response string) {
	fmt.Fprintf(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,%s}}`, uid, response)
}

// hookServer answers like hooks, and counts nothing of its own: answers are made once.
func hookServer(t *testing.T) (address, bundle string) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ Request struct{ UID string } }
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Errorf("a webhook is asked %v", err)
		}
		name := strings.TrimPrefix(r.URL.Path, "/")
		w.Header().Set("Content-Type", "application/json")
		hooks[name](w, asked.Request.UID)
	}))
	t.Cleanup(s.Close)
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return s.URL, base64.StdEncoding.EncodeToString(block)
}

// TestCostlyAnswers: whatever a webhook answers, a request costs what its own body may, and twice the size of
// answers as large as they may be.
func TestCostlyAnswers(t *testing.T) {
	b := newBench(t)
	address, bundle := hookServer(t)
	for name := range hooks {
		t.Run(name, func(t *testing.T) {
			b := *b
			b.t = t
			label := strings.ReplaceAll(name, " ", "-")
			configuration := fmt.Sprintf(`{"metadata":{"name":%q},"webhooks":[{"name":"x.example.com","clientConfig":{"url":%q,"caBundle":%q},"rules":[{"operations":["*"],"apiGroups":[""],"apiVersions":["*"],"resources":["configmaps"]}],
				"objectSelector":{"matchLabels":{"hook":%q}},"sideEffects":"None","admissionReviewVersions":["v1"]}]}`, label, address+"/"+url.PathEscape(name), bundle, label)
			if _, err := b.root.Do(t.Context(), client.Request{Method: "POST", Path: "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", Body: []byte(configuration)}); err != nil {
				t.Fatal(err)
			}
			const path = "/api/v1/namespaces/shop/configmaps"
			body := fmt.Sprintf(`{"metadata":{"name":%q,"labels":{"hook":%q}},"data":{}}`, label, label)
			query := url.Values{"dryRun": {"All"}}
			var took time.Duration
			var code int
			planetest.Eventually(t, func() error { // the configuration may not be known at once
				before := used.Processor()
				_, _, code = b.send(b.root, "POST", path, query, "application/json", body)
				if took = used.Processor() - before; took < time.Millisecond {
					return fmt.Errorf("a request takes %v: was the webhook called?", took)
				}
				return nil
			})
			_, _, code = b.send(b.root, "POST", path, query, "application/json", body)
			before := used.Processor()
			peak := used.Peak(func() { b.send(b.root, "POST", path, query, "application/json", body) })
			took = used.Processor() - before
			t.Logf("%d after %v and %d MB", code, took, peak>>20)
			if most := 2 * time.Second * used.Slowdown; took > most || used.Slowdown == 1 && peak > 200<<20 {
				t.Errorf("a request with the answer %q takes %v of processor time, %d MB and is answered %d, want at most %v and 200 MB", name, took, peak>>20, code, most)
			}
			if _, err := b.root.Do(t.Context(), client.Request{Path: "/api/v1/namespaces/default"}); err != nil {
				t.Errorf("GET of another user = %v, want nil", err)
			}
		})
	}
}
