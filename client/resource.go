package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/planekit/planekit/kinds/kind"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Object is a pointer to any Kubernetes object type.
type Object interface {
	runtime.Object
	metav1.Object
}

// Resource is a typed view of one resource of a server. Copies are equivalent and safe for
// concurrent use. Methods do not change the objects passed to them.
type Resource[T Object] struct {
	client *Client
	kind   *kind.Kind[T]
	// unmarshal decodes protobuf answers to reads.
	unmarshal unmarshaler[T]
}

// For returns the resource of kind k on the server of c. [Resource.Sync] makes it a source for an
// informer. Package kinds has Kubernetes' kinds.
func For[T Object](c *Client, k kind.Kind[T]) Resource[T] {
	return Resource[T]{client: c, kind: &k, unmarshal: unmarshalMessage[T]}
}

// WithUnmarshal returns a resource whose Get, List and Sync decode protobuf with unmarshal instead
// of the type's own Unmarshal. Several goroutines call unmarshal at once, each with a new object;
// unmarshal must not retain data, which is overwritten later. Use it to do more than decode: with
// [github.com/planekit/planekit/client/intern.Table.UnmarshalPod], pods share their equal parts and
// must then not be changed. Results of writes and JSON answers are decoded as usual.
func (r Resource[T]) WithUnmarshal(unmarshal func(data []byte, into T) error) Resource[T] {
	r.unmarshal = unmarshal
	return r
}

// Get reads one object. For cluster-scoped types namespace is empty, here and below.
func (r Resource[T]) Get(ctx context.Context, namespace, name string) (T, error) {
	return r.object(ctx, http.MethodGet, namespace, name, nil)
}

// Create stores a new object and returns it as stored.
func (r Resource[T]) Create(ctx context.Context, object T) (T, error) {
	return r.send(ctx, http.MethodPost, "", object)
}

// Update replaces an object and returns it as stored. It returns a Conflict if the resourceVersion
// is no longer current.
func (r Resource[T]) Update(ctx context.Context, object T) (T, error) {
	return r.send(ctx, http.MethodPut, object.GetName(), object)
}

// UpdateStatus replaces only the status of an object.
func (r Resource[T]) UpdateStatus(ctx context.Context, object T) (T, error) {
	return r.send(ctx, http.MethodPut, object.GetName(), object, "status")
}

// UpdateSubresource replaces the object through one of its subresources, such as approval.
func (r Resource[T]) UpdateSubresource(ctx context.Context, object T, subresource string) (T, error) {
	return r.send(ctx, http.MethodPut, object.GetName(), object, subresource)
}

// Patch changes an object, or a subresource that has the object's own type, and returns it as
// stored.
func (r Resource[T]) Patch(ctx context.Context, namespace, name string, kind types.PatchType, data []byte, subresource ...string) (T, error) {
	return r.object(ctx, http.MethodPatch, namespace, name, func(bool) ([]byte, string, error) {
		return data, string(kind), nil
	}, subresource...)
}

// Delete deletes one object. If the object has finalizers or a grace period, the deletion only
// begins.
func (r Resource[T]) Delete(ctx context.Context, namespace, name string, o metav1.DeleteOptions) error {
	at, err := r.path(namespace, name)
	if err != nil {
		return err
	}
	return r.delete(ctx, at, nil, o)
}

// DeleteCollection deletes the objects of a namespace that match list.
func (r Resource[T]) DeleteCollection(ctx context.Context, namespace string, o metav1.DeleteOptions, list metav1.ListOptions) error {
	at, err := r.path(namespace, "")
	if err != nil {
		return err
	}
	return r.delete(ctx, at, query(list), o)
}

func (r Resource[T]) delete(ctx context.Context, at string, q url.Values, o metav1.DeleteOptions) error {
	o.TypeMeta = metav1.TypeMeta{Kind: "DeleteOptions", APIVersion: "v1"}
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	_, err = r.client.Do(ctx, Request{Method: http.MethodDelete, Path: at, Query: q, Body: body})
	return err
}

// Post sends body to a subresource, such as a Binding to "binding" or an Eviction to "eviction" of
// a pod. A body of any other type must have its kind set.
func (r Resource[T]) Post(ctx context.Context, namespace, name, subresource string, body runtime.Object) error {
	at, err := r.path(namespace, name, subresource)
	if err != nil {
		return err
	}
	kind, err := kindOf(body)
	if err != nil {
		return err
	}
	_, err = r.negotiate(ctx, Request{Method: http.MethodPost, Path: at}, func(protobuf bool) ([]byte, string, error) {
		return encode(body, kind, protobuf)
	})
	return err
}

func kindOf(body runtime.Object) (metav1.TypeMeta, error) {
	switch body.(type) {
	case *corev1.Binding:
		return metav1.TypeMeta{APIVersion: "v1", Kind: "Binding"}, nil
	case *policyv1.Eviction:
		return metav1.TypeMeta{APIVersion: "policy/v1", Kind: "Eviction"}, nil
	case *autoscalingv1.Scale:
		return metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"}, nil
	}
	version, kind := body.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
	if kind == "" || version == "" {
		return metav1.TypeMeta{}, fmt.Errorf("the kind of a %T is not set", body)
	}
	return metav1.TypeMeta{APIVersion: version, Kind: kind}, nil
}

// send creates or updates object.
func (r Resource[T]) send(ctx context.Context, method, name string, object T, subresource ...string) (T, error) {
	if r.kind.Namespaced && object.GetNamespace() == "" {
		var none T
		return none, fmt.Errorf("%s %q: the namespace is empty", r.kind.Plural, object.GetName())
	}
	return r.object(ctx, method, object.GetNamespace(), name, func(protobuf bool) ([]byte, string, error) {
		return encode(object, r.typeMeta(), protobuf)
	}, subresource...)
}

var errNoName = errors.New("the object's name is empty")

// object sends a request whose answer is one object of type T.
func (r Resource[T]) object(ctx context.Context, method, namespace, name string, body encoder, subresource ...string) (T, error) {
	var none T
	if name == "" && method != http.MethodPost {
		return none, errNoName
	}
	at, err := r.path(namespace, name, subresource...)
	if err != nil {
		return none, err
	}
	response, err := r.negotiate(ctx, Request{Method: method, Path: at}, body)
	if err != nil {
		return none, err
	}
	unmarshal := r.unmarshal
	if method != http.MethodGet {
		unmarshal = unmarshalMessage[T] // the result of a write shares nothing
	}
	object := r.kind.New()
	if err := decode(response.ContentType, response.Body, r.typeMeta(), unmarshal, object); err != nil {
		return none, err
	}
	return object, nil
}

// encoder encodes a request's body, as protobuf if asked and possible.
type encoder func(protobuf bool) (body []byte, contentType string, err error)

// negotiate sends a request that prefers protobuf, and repeats it in JSON if the server refuses
// protobuf. The server refuses before it acts on the request.
func (r Resource[T]) negotiate(ctx context.Context, q Request, body encoder) (Response, error) {
	protobuf := r.protobuf()
	for {
		q.Accept = r.accept(protobuf, q.into != nil)
		if body != nil {
			var err error
			if q.Body, q.ContentType, err = body(protobuf); err != nil {
				return Response{}, err
			}
		}
		response, err := r.client.Do(ctx, q)
		if err == nil || !protobuf || !wantsJSON(err) {
			return response, err
		}
		r.client.refused.Store(r.resource(), struct{}{})
		protobuf = false
	}
}

func wantsJSON(err error) bool {
	return apierrors.IsUnsupportedMediaType(err) || apierrors.IsNotAcceptable(err)
}

func (r Resource[T]) protobuf() bool {
	var object T
	_, able := any(object).(message)
	return able && r.client.protobuf(r.resource())
}

// accept returns the media types of answers, best first. Of objects that are read as their metadata, the server
// should send nothing else; one that cannot sends them whole.
func (r Resource[T]) accept(protobuf, list bool) string {
	all := JSON
	if protobuf {
		all = Protobuf + "," + all
	}
	var object T
	if _, ok := any(object).(*metav1.PartialObjectMetadata); !ok {
		return all
	}
	as := ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1,"
	if list {
		as = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,"
	}
	if protobuf {
		return Protobuf + as + JSON + as + all
	}
	return JSON + as + all
}

func (r Resource[T]) typeMeta() metav1.TypeMeta {
	version := r.kind.Version
	if r.kind.Group != "" {
		version = r.kind.Group + "/" + r.kind.Version
	}
	return metav1.TypeMeta{APIVersion: version, Kind: r.kind.Kind}
}

func (r Resource[T]) resource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: r.kind.Group, Version: r.kind.Version, Resource: r.kind.Plural}
}

// path returns the path of the collection, of an object, or of a subresource.
func (r Resource[T]) path(namespace, name string, subresource ...string) (string, error) {
	segments := []string{"", "apis", r.kind.Group, r.kind.Version}
	if r.kind.Group == "" {
		segments = []string{"", "api", r.kind.Version}
	}
	switch {
	case !r.kind.Namespaced && namespace != "":
		return "", fmt.Errorf("%s are not namespaced, but namespace %q was given", r.kind.Plural, namespace)
	case r.kind.Namespaced && namespace == "" && name != "":
		return "", fmt.Errorf("%s %q: the namespace is empty", r.kind.Plural, name)
	case namespace != "":
		segments = append(segments, "namespaces", namespace)
	}
	segments = append(segments, r.kind.Plural)
	if name != "" {
		segments = append(segments, name)
		segments = append(segments, subresource...)
	}
	for i, s := range segments[1:] {
		if problems := content.IsPathSegmentName(s); len(problems) > 0 {
			return "", fmt.Errorf("%q in a path: %s", s, strings.Join(problems, ", "))
		}
		segments[i+1] = url.PathEscape(s)
	}
	return strings.Join(segments, "/"), nil
}
