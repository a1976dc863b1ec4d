package protobuf

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/customresources"
	"github.com/planekit/planekit/plane/planetest"
	extensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	extensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	registration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	registrationclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
)

// counted notes the media types of requests' bodies and of responses.
type counted struct {
	http.RoundTripper
	mu   sync.Mutex
	seen map[string]int
}

func (c *counted) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.RoundTripper.RoundTrip(r)
	c.mu.Lock()
	defer c.mu.Unlock()
	if media := r.Header.Get("Content-Type"); media != "" {
		c.seen["sent "+media]++
	}
	if err == nil {
		c.seen["got "+response.Header.Get("Content-Type")]++
	}
	return response, err
}

// client is a generated client of one kind.
type client[T runtime.Object, L runtime.Object] interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Update(context.Context, T, metav1.UpdateOptions) (T, error)
	UpdateStatus(context.Context, T, metav1.UpdateOptions) (T, error)
	Get(context.Context, string, metav1.GetOptions) (T, error)
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
	Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (T, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
}

// live leads an object through its life and checks what the server returns.
func live[T interface {
	runtime.Object
	metav1.Object
}, L runtime.Object](t *testing.T, c client[T, L], object T, count func(L) int) {
	t.Helper()
	name := object.GetName()
	check := func(verb string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s %T = %v, want nil", verb, object, err)
		}
	}
	made, err := c.Create(t.Context(), object, metav1.CreateOptions{})
	check("create", err)
	if made.GetUID() == "" {
		t.Errorf("create %T returns no UID", made)
	}
	events, err := c.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	check("watch", err)
	defer events.Stop()
	made.SetLabels(map[string]string{"a": "b"})
	for {
		if made, err = c.Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		made.SetLabels(map[string]string{"a": "b"})
		if _, err = c.Update(t.Context(), made, metav1.UpdateOptions{}); err == nil || !strings.Contains(err.Error(), "modified") {
			break // a controller writes its status meanwhile
		}
	}
	check("update", err)
	_, err = c.Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"labels":{"c":"d"}}}`), metav1.PatchOptions{})
	check("patch", err)
	for {
		if made, err = c.Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err = c.UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err == nil || !strings.Contains(err.Error(), "modified") {
			break
		}
	}
	check("update the status of", err)
	if fmt.Sprint(made.GetLabels()) != "map[a:b c:d]" {
		t.Errorf("get %T: labels %v, want map[a:b c:d]", made, made.GetLabels())
	}
	list, err := c.List(t.Context(), metav1.ListOptions{})
	check("list", err)
	if count(list) == 0 {
		t.Errorf("list %T is empty, want %s", list, name)
	}
	check("delete", c.Delete(t.Context(), name, metav1.DeleteOptions{}))
	for seen := map[watch.EventType]bool{}; !seen[watch.Deleted]; {
		select {
		case e, ok := <-events.ResultChan():
			if got, is := e.Object.(T); !ok || !is || got.GetName() != name {
				t.Fatalf("watch %T: %v, want events of %s", object, e, name)
			}
			seen[e.Type] = true
		case <-time.After(time.Minute):
			t.Fatalf("watch %T: no deletion within a minute, only %v", object, seen)
		}
	}
}

// TestClients: the generated clients of Kubernetes speak protobuf for both kinds, in both directions.
func TestClients(t *testing.T) {
	p := planetest.Start(t, planetest.With(func(c *plane.Config) { customresources.Enable(c) }))
	access := p.REST("admin", "system:masters")
	all := &counted{seen: map[string]int{}}
	config := &rest.Config{
		Host: access.Host, Dial: access.Dial, TLSClientConfig: rest.TLSClientConfig{CAData: access.CAData, CertData: access.CertData, KeyData: access.KeyData},
		ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeProtobuf, AcceptContentTypes: runtime.ContentTypeProtobuf},
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { all.RoundTripper = next; return all })
	definitions, err1 := extensionsclient.NewForConfig(config)
	services, err2 := registrationclient.NewForConfig(config)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	live(t, definitions.ApiextensionsV1().CustomResourceDefinitions(), &extensions.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "lamps.example.com"},
		Spec: extensions.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: extensions.NamespaceScoped, Names: extensions.CustomResourceDefinitionNames{Plural: "lamps", Kind: "Lamp"},
			Versions: []extensions.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: &extensions.CustomResourceValidation{
				OpenAPIV3Schema: &extensions.JSONSchemaProps{Type: "object", Description: strings.Repeat("long ", 1000), Properties: map[string]extensions.JSONSchemaProps{
					"spec": {Type: "object", Properties: map[string]extensions.JSONSchemaProps{
						"n":   {Type: "integer", Default: &extensions.JSON{Raw: []byte("1")}, Enum: []extensions.JSON{{Raw: []byte("1")}, {Raw: []byte("2")}}},
						"any": {XIntOrString: true},
						"map": {Type: "object", AdditionalProperties: &extensions.JSONSchemaPropsOrBool{Allows: true, Schema: &extensions.JSONSchemaProps{Type: "string"}}},
						"all": {Type: "array", Items: &extensions.JSONSchemaPropsOrArray{Schema: &extensions.JSONSchemaProps{Type: "string"}}},
					}},
				}}}}},
		},
	}, func(l *extensions.CustomResourceDefinitionList) int { return len(l.Items) })
	live(t, services.ApiregistrationV1().APIServices(), &registration.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: "v1.far.example.com"},
		Spec: registration.APIServiceSpec{Group: "far.example.com", Version: "v1", GroupPriorityMinimum: 1000, VersionPriority: 10,
			InsecureSkipTLSVerify: true, Service: &registration.ServiceReference{Namespace: "default", Name: "far"}},
	}, func(l *registration.APIServiceList) int { return len(l.Items) })
	for media := range all.seen {
		if !strings.Contains(media, "protobuf") && media != "sent application/merge-patch+json" {
			t.Errorf("%s: %d times, want protobuf alone", media, all.seen[media])
		}
	}
	t.Logf("media types: %v", all.seen)
}
