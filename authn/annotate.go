package authn

import (
	"context"
	"sync"
)

// An Annotation is a remark of an authenticator about a request, for the audit log. Key is a
// qualified name, as for annotations in Kubernetes.
type Annotation struct{ Key, Value string }

// annotationsKey is the context key of the collected annotations.
type annotationsKey struct{}

type annotations struct {
	mu   sync.Mutex
	list []Annotation // guarded by mu
}

// CollectAnnotations returns a context in which authenticators annotate requests, and a function
// that returns the annotations so far, in order. They also count if the request is refused: a
// refused credential is worth an audit.
func CollectAnnotations(ctx context.Context) (context.Context, func() []Annotation) {
	into := &annotations{}
	return context.WithValue(ctx, annotationsKey{}, into), func() []Annotation {
		into.mu.Lock()
		defer into.mu.Unlock()
		return into.list[:len(into.list):len(into.list)]
	}
}

// Annotate adds an annotation to the audit of the request that is being authenticated. It does
// nothing if the context does not collect annotations. Neither key nor value may contain a
// credential. A caching authenticator must record the annotations of the authenticator it wraps and
// replay them on a hit.
func Annotate(ctx context.Context, key, value string) {
	if into, ok := ctx.Value(annotationsKey{}).(*annotations); ok {
		into.mu.Lock()
		defer into.mu.Unlock()
		into.list = append(into.list, Annotation{key, value})
	}
}
