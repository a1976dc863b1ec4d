// Package eventratelimit limits the rate of Event objects: the EventRateLimit plugin of Kubernetes
// (https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#eventratelimit).
//
//	plugin, err := eventratelimit.New(eventratelimit.Config{Limits: []eventratelimit.Limit{
//		{Type: eventratelimit.Namespace, QPS: 50, Burst: 100},
//	}})
//	chain := admission.Chain{Validators: []admission.Validator{plugin}}
//
// Each limit has token buckets: one for the server, or one for each namespace, user, or pair of
// source and object. A request that creates or updates an event takes a token from a bucket of
// every limit. If one of them is empty, the request is refused with 429, and the other tokens are
// lost. Dry runs are not counted. Buckets fill at QPS up to Burst, and are full at first.
//
// The most recent CacheSize buckets are kept. An evicted one starts full again. Servers do not
// share buckets.
//
// Unlike in Kubernetes, events of the group events.k8s.io count too, because they are the same
// objects.
package eventratelimit

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"

	"github.com/planekit/planekit/admission"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Name is the plugin's name in --enable-admission-plugins.
const Name = "EventRateLimit"

// Plugin is an [admission.Validator].
type Plugin struct {
	limits []*limit
}

// New returns the plugin, or an error that lists the problems of each limit.
func New(c Config) (*Plugin, error) {
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("eventratelimit: %w", err)
	}
	p := &Plugin{}
	for _, l := range c.Limits {
		p.limits = append(p.limits, newLimit(l))
	}
	return p, nil
}

// Validate refuses an event that exceeds a limit.
func (p *Plugin) Validate(_ context.Context, r *admission.Request) error {
	if r.DryRun || r.Kind.Kind != "Event" || r.Kind.Group != corev1.GroupName && r.Kind.Group != eventsv1.GroupName ||
		r.Operation != admission.Create && r.Operation != admission.Update {
		return nil
	}
	var reached []string
	for _, l := range p.limits {
		if k := l.key(r); !l.take(k.id()) {
			reached = append(reached, fmt.Sprintf("limit reached on type %v for key %v", l.config.Type, k))
		}
	}
	switch len(reached) {
	case 0:
		return nil
	case 1:
		return apierrors.NewTooManyRequestsError(reached[0])
	}
	return apierrors.NewTooManyRequestsError("[" + strings.Join(reached, ", ") + "]")
}

// key identifies a bucket. Its parts are separate, so that keys are unique.
type key [7]string

// String formats the key as Kubernetes does.
func (k key) String() string { return strings.Join(k[:], "") }

// id returns a short form of k: memory must not grow with the size of a client's input.
func (k key) id() id {
	var all []byte
	for _, part := range k {
		all = binary.AppendUvarint(all, uint64(len(part)))
		all = append(all, part...)
	}
	return sha256.Sum256(all)
}

type id [sha256.Size]byte

// limit is one limit with its buckets.
type limit struct {
	config Limit

	mu      sync.Mutex
	buckets *recent
}

func newLimit(c Limit) *limit {
	size := int(c.CacheSize)
	switch {
	case c.Type == Server:
		size = 1
	case size == 0:
		size = DefaultCacheSize
	}
	return &limit{config: c, buckets: newRecent(size)}
}

// key returns the key of the bucket for r.
func (l *limit) key(r *admission.Request) key {
	switch l.config.Type {
	case Namespace:
		return key{r.Namespace}
	case User:
		if r.User != nil {
			return key{r.User.Name}
		}
	case SourceAndObject:
		return sourceAndObject(r.Object)
	}
	return key{}
}

func sourceAndObject(object any) key {
	switch e := object.(type) {
	case *corev1.Event:
		return about(e.Source, e.InvolvedObject)
	case *eventsv1.Event:
		source := e.DeprecatedSource
		if source.Component == "" {
			source = corev1.EventSource{Component: e.ReportingController, Host: e.ReportingInstance}
		}
		return about(source, e.Regarding)
	}
	return key{}
}

func about(source corev1.EventSource, object corev1.ObjectReference) key {
	return key{source.Component, source.Host, object.Kind, object.Namespace, object.Name, string(object.UID), object.APIVersion}
}
