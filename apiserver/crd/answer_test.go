package crd

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/planekit/planekit/internal/hookclient"
	"github.com/planekit/planekit/kinds/apiextensions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// testConverter returns a converter that asks h, of a definition with the versions v1 and v2.
func testConverter(t testing.TB, h http.Handler) *converter {
	server := httptest.NewTLSServer(h)
	t.Cleanup(server.Close)
	open := &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &apiextensions.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}}
	d := &definition{Spec: apiextensions.CustomResourceDefinitionSpec{
		Group: "example.com", Scope: apiextensions.NamespaceScoped,
		Versions: []apiextensions.CustomResourceDefinitionVersion{
			{Name: "v1", Served: true, Storage: true, Schema: open}, {Name: "v2", Served: true, Schema: open},
		},
		Conversion: &apiextensions.CustomResourceConversion{Strategy: apiextensions.WebhookConverter, Webhook: &apiextensions.WebhookConversion{
			ConversionReviewVersions: []string{"v9", "v1", "v1beta1"},
			ClientConfig: &apiextensions.WebhookClientConfig{
				URL: &server.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
		}},
	}}
	d.Status.AcceptedNames = apiextensions.CustomResourceDefinitionNames{Plural: "lamps", Singular: "lamp", Kind: "Lamp", ListKind: "LampList"}
	r, err := resourceOf(d, nil)
	if err != nil {
		t.Fatal(err)
	}
	hooks := newWebhooks(&Config{})
	hooks.add(d, &r)
	t.Cleanup(func() { hooks.sweep(nil) })
	return r.Converter.(*converter)
}

func testObject(name string, size int) *Object {
	return &Object{
		TypeMeta: metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "Lamp"}, ObjectMeta: metav1.ObjectMeta{Name: name},
		Fields: map[string]any{"spec": strings.Repeat("x", size)},
	}
}

// repeater answers with the objects in the wanted version, and counts the questions.
type repeater struct{ asked []int }

func (r *repeater) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	var q struct {
		Request struct {
			UID, DesiredAPIVersion string
			Objects                []map[string]any
		}
	}
	body, _ := io.ReadAll(request.Body)
	_ = json.Unmarshal(body, &q)
	r.asked = append(r.asked, len(q.Request.Objects))
	for _, o := range q.Request.Objects {
		o["apiVersion"] = q.Request.DesiredAPIVersion
	}
	objects, _ := json.Marshal(q.Request.Objects)
	fmt.Fprintf(w, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{"uid":%q,"convertedObjects":%s,"result":{"status":"Success"}}}`, q.Request.UID, objects)
}

// TestReviews: small objects take one question, and large ones as many as their size asks for.
func TestReviews(t *testing.T) {
	for name, test := range map[string]struct {
		n, size int
		asked   []int
	}{
		"none":  {0, 0, nil},
		"small": {2000, 10, []int{2000}},
		"large": {5, 400, []int{2, 2, 1}},
		"huge":  {3, 2000, []int{1, 1, 1}},
	} {
		r := &repeater{}
		c := testConverter(t, r)
		if name != "small" {
			c.maxReview = 1000
		}
		var objs []runtime.Object
		for i := range test.n {
			objs = append(objs, testObject(fmt.Sprint("l", i), test.size))
		}
		out, err := c.Convert(t.Context(), objs, "v2")
		if err != nil || !reflect.DeepEqual(r.asked, test.asked) || len(out) != test.n {
			t.Fatalf("%s: %d objects, asked for %v: %v", name, len(out), r.asked, err)
		}
		for i, obj := range out {
			if o := obj.(*Object); o.APIVersion != "example.com/v2" || o.Name != fmt.Sprint("l", i) || len(o.Fields["spec"].(string)) != test.size {
				t.Fatalf("%s: object %d is %+v", name, i, o)
			}
		}
	}
}

// TestEmptyObjects: a webhook is not asked for objects without content.
func TestEmptyObjects(t *testing.T) {
	r := &repeater{}
	c := testConverter(t, r)
	empty := &Object{TypeMeta: metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "Lamp"}}
	out, err := c.Convert(t.Context(), []runtime.Object{empty, testObject("a", 1), empty}, "v2")
	if err != nil || !reflect.DeepEqual(r.asked, []int{1}) || out[0].(*Object).APIVersion != "example.com/v2" || out[1].(*Object).Name != "a" {
		t.Errorf("%v asked %v: %v", out, r.asked, err)
	}
}

// TestCancelledConversion: the end of a request ends its call.
func TestCancelledConversion(t *testing.T) {
	asked := make(chan struct{})
	c := testConverter(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(asked)
		<-r.Context().Done()
	}))
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	if _, err := c.Convert(ctx, []runtime.Object{testObject("a", 1)}, "v2"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// FuzzAnswer: an answer is an error, or as many objects as were asked for, with their identities.
func FuzzAnswer(f *testing.F) {
	const good = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{"uid":"u","result":{"status":"Success"},` +
		`"convertedObjects":[{"apiVersion":"example.com/v2","kind":"Lamp","metadata":{"name":"a","labels":{"x":"y"}},"spec":{"a":1}}]}}`
	for _, seed := range []string{
		good, strings.ReplaceAll(good, `"labels":{"x":"y"}`, `"labels":1`), strings.ReplaceAll(good, `"a"`, `"b"`), "", "[]", "x: y", `{"kind":"Status","apiVersion":"v1"}`,
		strings.ReplaceAll(good, `{"x":"y"}`, "null"), strings.ReplaceAll(good, `/v1"`, `/v1beta1"`), strings.ReplaceAll(good, `"spec"`, `"items"`), "k8s\x00",
	} {
		f.Add(200, "v1", []byte(seed))
		f.Add(500, "v1beta1", []byte(seed))
	}
	c, original := testConverter(f, &repeater{}), testObject("a", 3)
	f.Fuzz(func(t *testing.T, code int, version string, data []byte) {
		review, err := answered(c.decoder, &hookclient.Answer{Code: code, Body: data}, version)
		if err != nil {
			return
		}
		objects, err := converted(review, version, types.UID("u"))
		if err != nil {
			return
		}
		for i, one := range objects {
			o, err := c.versions["v2"].accept(t.Context(), original, one.Raw, i)
			if err != nil {
				continue
			}
			if o.Name != "a" || o.APIVersion != "example.com/v2" || o.Kind != "Lamp" || o.UID != "" {
				t.Fatalf("%s has become %+v", one.Raw, o)
			}
			if _, err := o.MarshalJSON(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// BenchmarkConvert asks a webhook in the process, over TLS, which reads and writes the objects as this server does.
func BenchmarkConvert(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprintf("objects=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			c := testConverter(b, &repeater{})
			var objs []runtime.Object
			for i := range n {
				objs = append(objs, testObject(fmt.Sprint("l", i), 300))
			}
			for b.Loop() {
				if _, err := c.Convert(b.Context(), objs, "v2"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
