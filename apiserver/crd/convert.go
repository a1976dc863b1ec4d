package crd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/internal/hookclient"
	"github.com/planekit/planekit/kinds/apiextensions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
)

const (
	// hookTimeout bounds a call, as in kube-apiserver.
	hookTimeout = 30 * time.Second
	// maxReview is the size of objects, in bytes of JSON, above which a webhook is asked again for the rest. A
	// single object may be larger.
	maxReview = 8 << 20
	// An answer may be leastAnswer and maxGrowth times as large as the question, but not larger than mostAnswer.
	leastAnswer, maxGrowth, mostAnswer = 8 << 20, 4, 64 << 20
)

// webhooks makes the converters of definitions. Its clients belong to the goroutine of Run.
type webhooks struct {
	config  *Config
	decoder runtime.Decoder
	// maxReview is the constant of that name.
	maxReview int
	// clients holds the clients by their configuration, so that connections are kept until it changes.
	clients map[string]*hookclient.Client
}

func newWebhooks(c *Config) *webhooks {
	return &webhooks{config: c, decoder: newReviewDecoder(), maxReview: maxReview, clients: map[string]*hookclient.Client{}}
}

func clientKey(c *apiextensions.WebhookClientConfig) string {
	key, _ := json.Marshal(c) // strings and numbers: it cannot fail
	return string(key)
}

func (w *webhooks) client(c *apiextensions.WebhookClientConfig) *hookclient.Client {
	key := clientKey(c)
	if w.clients[key] == nil {
		to := hookclient.Config{URL: c.URL, CABundle: bytes.TrimSpace(c.CABundle), Certificate: w.config.Certificate, Timeout: hookTimeout}
		if w.config.Resolver != nil {
			to.Resolver = w.config.Resolver
		}
		if s := c.Service; s != nil {
			to.Service = &hookclient.Service{Namespace: s.Namespace, Name: s.Name, Path: s.Path}
			if s.Port != nil {
				to.Service.Port = *s.Port
			}
		}
		w.clients[key] = hookclient.New(to)
	}
	return w.clients[key]
}

// sweep drops the clients that no served definition uses.
func (w *webhooks) sweep(served map[string]*definition) {
	used := map[string]bool{}
	for _, d := range served {
		if c := webhookOf(d); converts(d) {
			used[clientKey(c.ClientConfig)] = true
		}
	}
	for key, client := range w.clients {
		if !used[key] {
			client.Close()
			delete(w.clients, key)
		}
	}
}

// converts reports whether a webhook converts the objects of d.
func converts(d *definition) bool {
	c := webhookOf(d)
	return c != nil && d.Spec.Conversion.Strategy == apiextensions.WebhookConverter && c.ClientConfig != nil
}

// add makes the webhook of d, if it has one, convert the objects of r, whose versions are versions.
func (w *webhooks) add(d *definition, r *apiserver.Resource) {
	if !converts(d) {
		return
	}
	hook := webhookOf(d)
	c := &converter{client: w.client(hook.ClientConfig), decoder: w.decoder, maxReview: w.maxReview, versions: map[string]*version{}}
	// The first version that the server knows, as the definition's author prefers them.
	if i := slices.IndexFunc(hook.ConversionReviewVersions, func(v string) bool { return slices.Contains(reviewVersions, v) }); i >= 0 {
		c.review = hook.ConversionReviewVersions[i]
	}
	c.versions[r.Version] = r.New().(*Object).version
	for i := range r.Versions {
		v := &r.Versions[i]
		c.versions[v.Name] = v.New().(*Object).version
		v.To, v.From = nil, nil
	}
	r.Converter = c
	if d.DeletionTimestamp != nil {
		r.Unserved = false // so that objects can be deleted without the webhook
	}
}

// A converter converts the objects of one definition by its webhook.
type converter struct {
	client  *hookclient.Client
	decoder runtime.Decoder
	// maxReview bounds the objects of one review, in bytes.
	maxReview int
	// review is the version of the reviews, empty if the webhook knows none that the server does.
	review   string
	versions map[string]*version
}

// Convert implements [apiserver.Converter].
func (c *converter) Convert(ctx context.Context, objs []runtime.Object, name string) ([]runtime.Object, error) {
	to, out := c.versions[name], make([]runtime.Object, len(objs))
	if to == nil {
		return nil, fmt.Errorf("no version %q", name)
	}
	b := &batch{converter: c, to: to, out: out}
	for i, obj := range objs {
		o := obj.(*Object)
		if o.isEmpty() {
			out[i] = &Object{version: to, completed: true, TypeMeta: metav1.TypeMeta{APIVersion: to.gvk.GroupVersion().String(), Kind: to.gvk.Kind}}
			continue
		}
		data, err := o.MarshalJSON()
		if err != nil {
			return nil, err
		}
		if len(b.objects) > 0 && b.size+len(data) > c.maxReview {
			if err := b.ask(ctx); err != nil {
				return nil, err
			}
		}
		b.objects, b.originals, b.at, b.size = append(b.objects, data), append(b.originals, o), append(b.at, i), b.size+len(data)
	}
	if len(b.objects) == 0 {
		return out, nil
	}
	return out, b.ask(ctx)
}

// isEmpty reports whether o has nothing that a webhook could convert.
func (o *Object) isEmpty() bool {
	return len(o.Fields) == 0 && o.Name == "" && o.Namespace == "" && o.UID == "" && o.CreationTimestamp.IsZero() &&
		len(o.Labels)+len(o.Annotations)+len(o.Finalizers)+len(o.OwnerReferences)+len(o.ManagedFields) == 0
}

// A batch is a part of the objects of one conversion.
type batch struct {
	*converter
	to  *version
	out []runtime.Object
	// objects are the objects as JSON, originals the objects, at their places in out, and size the bytes.
	objects   [][]byte
	originals []*Object
	at        []int
	size      int
}

// ask converts the objects of the batch and empties it.
func (b *batch) ask(ctx context.Context) error {
	from := b.originals[0].GroupVersionKind()
	if b.review == "" {
		return failure("", "no supported conversion review versions")
	}
	uid := uuid.NewUUID()
	body := question(b.review, uid, b.to.gvk.GroupVersion().String(), b.objects)
	answer, err := b.client.Post(ctx, body, hookTimeout, int64(min(leastAnswer+maxGrowth*len(body), mostAnswer)))
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	kind := callFailure
	var review *conversionReview
	if err == nil {
		review, err = answered(b.decoder, answer, b.review)
	}
	var objects []runtime.RawExtension
	if err == nil {
		kind = malformedAnswer
		objects, err = converted(review, b.review, uid)
	}
	if err != nil {
		return failure(kind, "conversion webhook for %v failed: %v", from, err)
	}
	if len(objects) != len(b.originals) {
		return failure(partialAnswer, "conversion webhook for %v returned %d objects, expected %d", from, len(objects), len(b.originals))
	}
	for i, original := range b.originals {
		if b.out[b.at[i]], err = b.to.accept(ctx, original, objects[i].Raw, i); err != nil {
			return failure(invalidObject, "%v", err)
		}
	}
	b.objects, b.originals, b.at, b.size = nil, nil, nil, 0
	return nil
}

// The failure_type of conversions in metrics.
const (
	callFailure     = "conversion_webhook_call_failure"
	malformedAnswer = "conversion_webhook_malformed_response_failure"
	partialAnswer   = "conversion_webhook_partial_response_failure"
	invalidObject   = "conversion_webhook_invalid_converted_object_failure"
)

// failureError is the error of a request whose objects cannot be converted.
type failureError struct {
	*apierrors.StatusError
	kind string // empty if the webhook has not been called
}

// Unwrap returns the answer for the client.
func (f *failureError) Unwrap() error { return f.StatusError }

// ConversionFailure returns the failure_type for the summary of the conversion.
func (f *failureError) ConversionFailure() string { return f.kind }

// failure returns the error of a request whose objects cannot be converted, as kube-apiserver answers it.
func failure(kind, format string, args ...any) error {
	return &failureError{&apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: fmt.Sprintf(format, args...),
	}}, kind}
}
