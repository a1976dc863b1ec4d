package authn

import (
	"context"
	"sync"
)

// An Annotation is what an authenticator has to say about a request, for an audit.
// Key is a qualified name, as of an annotation in Kubernetes.
type Annotation struct{ Key, Value string }

// annotationsKey is the key of where a context collects annotations.
type annotationsKey struct{}

type annotations struct {
	mu   sync.Mutex
	list []Annotation // guarded by mu
}

// CollectAnnotations returns a context in which authenticators annotate requests,
// and a function that returns the annotations so far, in the order in which they
// came. They count whether or not the request gets a user: a credential that was
// refused is worth an audit too.
func CollectAnnotations(ctx context.Context) (context.Context, func() []Annotation) {
	into := &annotations{}
	return context.WithValue(ctx, annotationsKey{}, into), func() []Annotation {
		into.mu.Lock()
		defer into.mu.Unlock()
		return into.list[:len(into.list):len(into.list)]
	}
}

// Annotate adds to the audit of the request that is being authenticated. Where
// nobody collects, it does nothing. Neither key nor value may contain a
// credential. An authenticator that answers out of memory must annotate again,
// what it has to collect itself if another gave the answer.
func Annotate(ctx context.Context, key, value string) {
	if into, ok := ctx.Value(annotationsKey{}).(*annotations); ok {
		into.mu.Lock()
		defer into.mu.Unlock()
		into.list = append(into.list, Annotation{key, value})
	}
}
