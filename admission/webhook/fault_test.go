package webhook_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/webhook"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/localcache"
	admissionapi "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// direct is a running plugin with these webhooks, each in a configuration of its own.
func direct(t testing.TB, mutates bool, hooks ...registration.MutatingWebhook) *webhook.Plugin {
	t.Helper()
	c := webhook.Config{Namespaces: nothing{}, Lookup: nothing{}.lookup}
	mutating := localcache.NewMap[*registration.MutatingWebhookConfiguration]()
	validating := localcache.NewMap[*registration.ValidatingWebhookConfiguration]()
	for i, h := range hooks {
		meta := metav1.ObjectMeta{Name: fmt.Sprintf("c%03d", i)}
		mutating.Put(&registration.MutatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []registration.MutatingWebhook{h}})
		validating.Put(&registration.ValidatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []registration.ValidatingWebhook{{
			Name: h.Name, ClientConfig: h.ClientConfig, Rules: h.Rules, FailurePolicy: h.FailurePolicy, SideEffects: h.SideEffects, TimeoutSeconds: h.TimeoutSeconds,
			NamespaceSelector: h.NamespaceSelector, ObjectSelector: h.ObjectSelector, MatchConditions: h.MatchConditions, AdmissionReviewVersions: h.AdmissionReviewVersions,
		}}})
	}
	if mutates {
		c.Mutating = mutating
	} else {
		c.Validating = validating
	}
	p, err := webhook.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	<-p.Synced()
	return p
}

// TestFaults: whatever a webhook does but answer is a failure: 500 with Fail,
// allowed and audited with Ignore.
func TestFaults(t *testing.T) {
	elsewhere := serve(t, allow)
	review := func(change func(*admissionapi.AdmissionReview)) func(http.ResponseWriter, *admissionapi.AdmissionReview, *http.Request) {
		return func(w http.ResponseWriter, r *admissionapi.AdmissionReview, _ *http.Request) {
			r.Response = &admissionapi.AdmissionResponse{UID: r.Request.UID, Allowed: true}
			change(r)
			_ = json.NewEncoder(w).Encode(r)
		}
	}
	kind, strange, empty := admissionapi.PatchTypeJSONPatch, admissionapi.PatchType("MergePatch"), admissionapi.PatchType("")
	for name, c := range map[string]struct {
		handle  func(http.ResponseWriter, *admissionapi.AdmissionReview, *http.Request)
		message string
		only    string // "mutating" or "validating"
	}{
		"garbage": {func(w http.ResponseWriter, _ *admissionapi.AdmissionReview, _ *http.Request) { fmt.Fprint(w, "<html>") }, "received invalid webhook response: ", ""},
		"nothing": {func(http.ResponseWriter, *admissionapi.AdmissionReview, *http.Request) {}, "received invalid webhook response: ", ""},
		"trailing": {func(w http.ResponseWriter, r *admissionapi.AdmissionReview, q *http.Request) {
			review(func(*admissionapi.AdmissionReview) {})(w, r, q)
			fmt.Fprint(w, "{}")
		}, "received invalid webhook response: ", ""},
		"uid":       {review(func(r *admissionapi.AdmissionReview) { r.Response.UID = "other" }), `got "other"`, ""},
		"no uid":    {review(func(r *admissionapi.AdmissionReview) { r.Response.UID = "" }), `got ""`, ""},
		"absent":    {review(func(r *admissionapi.AdmissionReview) { r.Response = nil }), "webhook response was absent", ""},
		"kind":      {review(func(r *admissionapi.AdmissionReview) { r.Kind = "Review" }), "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got admission.k8s.io/v1, Kind=Review", ""},
		"version":   {review(func(r *admissionapi.AdmissionReview) { r.APIVersion = "admission.k8s.io/v1beta1" }), "got admission.k8s.io/v1beta1, Kind=AdmissionReview", ""},
		"patch":     {review(func(r *admissionapi.AdmissionReview) { r.Response.Patch = []byte("[]") }), "validating webhook may not return response.patch", "validating"},
		"type":      {review(func(r *admissionapi.AdmissionReview) { r.Response.PatchType = &kind }), "validating webhook may not return response.patchType", "validating"},
		"untyped":   {review(func(r *admissionapi.AdmissionReview) { r.Response.Patch = []byte("[]") }), "webhook returned response.patch but not response.patchType", "mutating"},
		"only type": {review(func(r *admissionapi.AdmissionReview) { r.Response.PatchType = &kind }), "webhook returned response.patchType but not response.patch", "mutating"},
		"strange": {review(func(r *admissionapi.AdmissionReview) { r.Response.Patch, r.Response.PatchType = []byte("{}"), &strange }),
			`unsupported patch type "MergePatch"`, "mutating"},
		"empty type": {review(func(r *admissionapi.AdmissionReview) { r.Response.Patch, r.Response.PatchType = []byte("[]"), &empty }),
			`webhook returned invalid response.patchType of ""`, "mutating"},
		"no patch": {review(func(r *admissionapi.AdmissionReview) { r.Response.Patch, r.Response.PatchType = []byte("{"), &kind }),
			"received undecodable patch in webhook response", "mutating"},
		"status": {func(w http.ResponseWriter, _ *admissionapi.AdmissionReview, _ *http.Request) {
			http.Error(w, "boom", http.StatusBadGateway)
		},
			"failed to call webhook: the webhook answered 502 Bad Gateway", ""},
		"redirect": {func(w http.ResponseWriter, _ *admissionapi.AdmissionReview, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		},
			"failed to call webhook: the webhook answered 307 Temporary Redirect", ""},
		"endless": {func(w http.ResponseWriter, _ *admissionapi.AdmissionReview, _ *http.Request) {
			for block := []byte(strings.Repeat(" ", 1<<16)); ; {
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		}, "failed to call webhook: the answer is larger than 8388608 bytes", ""},
		"abort": {func(http.ResponseWriter, *admissionapi.AdmissionReview, *http.Request) { panic(http.ErrAbortHandler) }, "failed to call webhook: Post", ""},
		"hang": {func(_ http.ResponseWriter, _ *admissionapi.AdmissionReview, r *http.Request) { <-r.Context().Done() },
			"context deadline exceeded", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hook := serveHTTP(t, c.handle)
			for _, mutates := range []bool{true, false} {
				if c.only == "validating" && mutates || c.only == "mutating" && !mutates {
					continue
				}
				seconds := long
				if name == "hang" {
					seconds = 1
				}
				failsBy(t, hook.at(), mutates, c.message, seconds)
			}
		})
	}
	t.Cleanup(func() {
		if n := len(elsewhere.calls()); n != 0 {
			t.Errorf("a redirect was followed %d times", n)
		}
	})
	t.Run("down", func(t *testing.T) {
		hook := serve(t, allow)
		hook.Close()
		failsBy(t, hook.at(), true, "connect: connection refused", long)
		failsBy(t, hook.at(), false, "connect: connection refused", long)
	})
	t.Run("another authority", func(t *testing.T) {
		hook := serve(t, allow)
		_, hook.ca = newCertificate(t)
		failsBy(t, hook.at(), false, "tls: failed to verify certificate", long)
		hook.ca = []byte("rubbish")
		failsBy(t, hook.at(), false, "unable to load root certificates", long)
		hook.ca = nil // those of the system
		failsBy(t, hook.at(), false, "tls: failed to verify certificate", long)
	})
}

// long is the longest timeout that a webhook may have, in seconds: what fails on
// its own does so before, also on a slow machine.
const long = int32(30)

// failsBy sends a request to a webhook with a timeout of seconds. The request must fail with message.
func failsBy(t *testing.T, at registration.WebhookClientConfig, mutates bool, message string, seconds int32) {
	t.Helper()
	ignore := registration.Ignore
	w := begin(t, nil)
	w.configure("ignored", mutates, at, func(h *registration.MutatingWebhook) { h.FailurePolicy, h.TimeoutSeconds = &ignore, &seconds })
	w.check(w.make("a", ""), 201, "")
	key := "failed-open.validating.webhook.admission.k8s.io/round_0_index_0"
	if mutates {
		key = "failed-open.mutation.webhook.admission.k8s.io/round_0_index_0"
	}
	if got := w.audit.last(t)[key]; got != "ignored.example.com" {
		t.Errorf("%s is %q", key, got)
	}
	w.configure("needed", mutates, at, func(h *registration.MutatingWebhook) { h.TimeoutSeconds = &seconds })
	a := w.make("b", "")
	w.check(a, 500, `Internal error occurred: failed calling webhook "needed.example.com": `)
	if !strings.Contains(a.message(), message) || a.body["reason"] != "InternalError" {
		t.Errorf("%v %s; want %s", a.body["reason"], a.message(), message)
	}
}

// TestTimeout: a webhook has the timeout in its configuration, by default 10 s, and receives it.
func TestTimeout(t *testing.T) {
	url, second := "https://hook.example.com/review", int32(1)
	for _, mutates := range []bool{true, false} {
		for _, test := range []struct {
			configured *int32
			want       time.Duration
		}{{&second, time.Second}, {nil, 10 * time.Second}} {
			synctest.Test(t, func(t *testing.T) {
				p := direct(t, mutates, registration.MutatingWebhook{Name: "a", ClientConfig: registration.WebhookClientConfig{URL: &url}, TimeoutSeconds: test.configured,
					AdmissionReviewVersions: []string{"v1"}, Rules: []registration.RuleWithOperations{ruleOf("*", "*", "*", "*")}})
				told := ""
				p.Through(client.TransportFunc(func(r *http.Request) (*http.Response, error) {
					told = r.URL.RawQuery
					<-r.Context().Done()
					return nil, r.Context().Err()
				}))
				begun := time.Now()
				err := admit(t.Context(), p, create())
				if took := time.Since(begun); took != test.want || err == nil || told != "timeout="+test.want.String() {
					t.Errorf("told %q and cut after %v: %v", told, took, err)
				}
			})
		}
	}
}

// TestLateAnswer: an answer that arrives after the timeout is not used.
func TestLateAnswer(t *testing.T) {
	url := "https://hook.example.com/review"
	for _, mutates := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			p := direct(t, mutates, registration.MutatingWebhook{Name: "a", ClientConfig: registration.WebhookClientConfig{URL: &url},
				AdmissionReviewVersions: []string{"v1"}, Rules: []registration.RuleWithOperations{ruleOf("*", "*", "*", "*")}})
			p.Through(client.TransportFunc(func(r *http.Request) (*http.Response, error) {
				<-r.Context().Done()
				return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
			}))
			if err := admit(t.Context(), p, create()); err == nil || !strings.Contains(err.Error(), "context deadline exceeded") {
				t.Error(err)
			}
		})
	}
}

// TestCancel: a client that goes away ends the call of its webhook, whose failure
// is not written down as an opening then.
func TestCancel(t *testing.T) {
	for _, mutates := range []bool{true, false} {
		w := begin(t, nil)
		arrived, ended := make(chan struct{}, 1), make(chan struct{}, 1)
		hook := serveHTTP(t, func(_ http.ResponseWriter, _ *admissionapi.AdmissionReview, r *http.Request) {
			arrived <- struct{}{}
			<-r.Context().Done()
			ended <- struct{}{}
		})
		ignore, seconds := registration.Ignore, long
		w.configure("slow", mutates, hook.at(), func(h *registration.MutatingWebhook) { h.FailurePolicy, h.TimeoutSeconds = &ignore, &seconds })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan answer, 1)
		go func() { done <- w.within(ctx, http.MethodPost, configMaps, `{"metadata":{"name":"a"}}`) }()
		<-arrived
		begun := time.Now()
		cancel()
		<-ended
		<-done
		if took := time.Since(begun); took > 20*time.Second { // not by its own timeout
			t.Errorf("the call ended after %v", took)
		}
		for key := range w.audit.last(t) {
			if strings.HasPrefix(key, "failed-open") {
				t.Errorf("audited as %s", key)
			}
		}
		w.check(w.do(http.MethodGet, configMaps+"/a", ""), 404, `configmaps "a" not found`)
	}
}

// TestOlderReviews: the first known version of a webhook's list is the one of its reviews. A response in v1beta1 may
// leave out its type, its UID and the type of its patch.
func TestOlderReviews(t *testing.T) {
	var versions []string
	var respond func(http.ResponseWriter)
	hook := serveHTTP(t, func(w http.ResponseWriter, review *admissionapi.AdmissionReview, _ *http.Request) {
		versions = append(versions, review.APIVersion)
		respond(w)
	})
	patch := base64.StdEncoding.EncodeToString([]byte(`[{"op":"add","path":"/data","value":{"a":"b"}}]`))
	for _, test := range []struct {
		taken    []string
		mutates  bool
		response string
		version  string // of the review
		err      string
	}{
		{[]string{"v1beta1"}, false, `{"response":{"allowed":true}}`, "admission.k8s.io/v1beta1", ""},
		{[]string{"v1beta1"}, false, `{"response":{"allowed":false,"status":{"message":"no"}}}`, "admission.k8s.io/v1beta1", "denied the request: no"},
		{[]string{"v1beta1"}, false, `{}`, "admission.k8s.io/v1beta1", "webhook response was absent"},
		{[]string{"v1beta1"}, false, `{"response":{"allowed":true,"patch":"` + patch + `"}}`, "admission.k8s.io/v1beta1", ""},
		{[]string{"v1beta1"}, true, `{"response":{"allowed":true,"patch":"` + patch + `"}}`, "admission.k8s.io/v1beta1", ""},
		{[]string{"v2", "v1beta1", "v1"}, false, `{"response":{"allowed":true}}`, "admission.k8s.io/v1beta1", ""},
		{[]string{"v1", "v1beta1"}, false, `{"response":{"allowed":true}}`, "admission.k8s.io/v1", "expected response.uid="},
		{[]string{"v2"}, false, "", "", "does not accept known AdmissionReview versions (v1, v1beta1)"},
	} {
		versions, respond = nil, func(w http.ResponseWriter) { io.WriteString(w, test.response) }
		none := registration.SideEffectClassNone
		p := direct(t, test.mutates, registration.MutatingWebhook{Name: "old", ClientConfig: hook.at(), AdmissionReviewVersions: test.taken,
			SideEffects: &none, Rules: []registration.RuleWithOperations{ruleOf("*", "*", "*", "*")}})
		r := create()
		err := admit(t.Context(), p, r)
		if text := fmt.Sprint(err); err == nil && test.err != "" || err != nil && (test.err == "" || !strings.Contains(text, test.err)) {
			t.Errorf("admission by a webhook of %q that responds %s = %v, want %q", test.taken, test.response, err, test.err)
		}
		if got := strings.Join(versions, " "); got != test.version {
			t.Errorf("a webhook of %q gets a review of %q, want %q", test.taken, got, test.version)
		}
		if data := r.Object.(*corev1.ConfigMap).Data["a"]; test.mutates && data != "b" {
			t.Errorf("the object has data %q after the patch, want b", data)
		}
	}
}

// TestBroken: what a server would not have stored does no harm.
func TestBroken(t *testing.T) {
	rules := []registration.RuleWithOperations{ruleOf("*", "*", "*", "*")}
	bad := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
	http, nowhere := "http://127.0.0.1", "::"
	for want, h := range map[string]registration.MutatingWebhook{
		`"Near" is not a valid label selector operator`:         {ObjectSelector: bad},
		"webhook configuration must have either service or URL": {},
		"it must be https":  {ClientConfig: registration.WebhookClientConfig{URL: &http}},
		`unusable URL "::"`: {ClientConfig: registration.WebhookClientConfig{URL: &nowhere}},
		"match conditions are not supported by this server": {MatchConditions: []registration.MatchCondition{{Name: "x", Expression: "true"}}},
		"namespace default: no namespace default":           {NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}},
	} {
		h.Name, h.Rules, h.AdmissionReviewVersions = "a", rules, []string{"v1"}
		if err := admit(t.Context(), direct(t, false, h), create()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestReady: requests wait for the first list, but not for ever.
func TestReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known := localcache.NewUnsynced(localcache.KeyOf[*registration.ValidatingWebhookConfiguration])
		p, err := webhook.New(webhook.Config{Validating: known, Namespaces: nothing{}, Lookup: nothing{}.lookup})
		if err != nil {
			t.Fatal(err)
		}
		background(t, p.Run)
		begun := time.Now()
		err = p.Validate(t.Context(), create())
		if took := time.Since(begun); took != 10*time.Second || err == nil || err.Error() != `configmaps "a" is forbidden: not yet ready to handle request` {
			t.Errorf("after %v: %v", took, err)
		}
		if err := p.Mutate(t.Context(), create()); err != nil {
			t.Errorf("there are no mutating webhooks to wait for: %v", err)
		}
		done := make(chan error, 1)
		go func() { done <- p.Validate(t.Context(), create()) }()
		synctest.Wait()
		known.Sync()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestNew(t *testing.T) {
	if _, err := webhook.New(webhook.Config{}); err == nil {
		t.Error("a plugin that knows no namespaces")
	}
}

// create is a request that creates a config map.
func create() *admission.Request {
	return &admission.Request{
		Operation: admission.Create, Name: "a", Namespace: "default", Options: &metav1.CreateOptions{},
		Object:   &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default", UID: "u"}, Data: map[string]string{"k": "v"}},
		Resource: admission.GroupVersionResource{Version: "v1", Resource: "configmaps"},
		Kind:     admission.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
	}
}

func admit(ctx context.Context, p *webhook.Plugin, r *admission.Request) error {
	return errors.Join(p.Mutate(ctx, r), p.Validate(ctx, r))
}

func FuzzReview(f *testing.F) {
	for _, seed := range []string{
		`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"u","allowed":true}}`,
		`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"u","allowed":true,"patch":"W10=","patchType":"JSONPatch"}}`,
		`{"response":{"uid":"u"}}`, `{"response":null}`, `null`, `[]`, `{`, "\xff",
	} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	f.Fuzz(func(t *testing.T, data []byte, mutates bool) {
		err := webhook.ReadReview(data, "u", mutates)
		if err == nil && webhook.ReadReview(data, types.UID("v"), mutates) == nil {
			t.Error("an answer to two questions")
		}
	})
}

func FuzzPatch(f *testing.F) {
	for _, seed := range []string{
		`[{"op":"add","path":"/data/x","value":"y"}]`, `[{"op":"remove","path":"/data"}]`, `[{"op":"copy","from":"","path":"/data"}]`,
		`[{"op":"move","from":"/metadata","path":"/data"}]`, `[{"op":"replace","path":"","value":null}]`, `[{"op":"test","path":"/kind","value":"ConfigMap"}]`,
		`[{}]`, `[{"op":"add","path":"/metadata/labels/-1","value":[]}]`, `[null]`, `[{"op":"add"}]`, `{}`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, patch []byte) {
		r := create()
		got, err := webhook.Patched(context.Background(), r, patch)
		if err != nil || got == nil {
			return
		}
		c, ok := got.(*corev1.ConfigMap)
		if !ok || c.Kind != "ConfigMap" {
			t.Errorf("patched to %+v", got)
		}
	})
}

func BenchmarkNoMatch(b *testing.B) {
	for _, n := range []int{1, 10, 100} {
		for _, kind := range []string{"rules", "selectors"} {
			b.Run(fmt.Sprintf("configurations=%d/%s", n, kind), func(b *testing.B) {
				hooks := make([]registration.MutatingWebhook, n)
				url := "https://127.0.0.1:1"
				for i := range hooks {
					hooks[i] = registration.MutatingWebhook{Name: "a", ClientConfig: registration.WebhookClientConfig{URL: &url},
						Rules: []registration.RuleWithOperations{ruleOf("CREATE,UPDATE", "apps", "v1", "deployments,statefulsets,daemonsets")}}
					if kind == "selectors" {
						hooks[i].Rules[0] = ruleOf("CREATE", "", "v1", "configmaps")
						hooks[i].ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"inject": "yes"}}
					}
				}
				mutating, validating := direct(b, true, hooks...), direct(b, false, hooks...)
				r, ctx := create(), context.Background()
				b.ReportAllocs()
				for b.Loop() {
					if mutating.Mutate(ctx, r) != nil || validating.Validate(ctx, r) != nil {
						b.Fatal("refused")
					}
				}
			})
		}
	}
}
