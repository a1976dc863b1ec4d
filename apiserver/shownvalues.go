package apiserver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/planekit/planekit/apiserver/internal/claims"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/cache"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// shownClaims stores the claims of holder's objects as objects of kind.
type shownClaims struct {
	values       *ShownValues
	holder, kind *servedKind
	namer        namer
}

// Key implements [claims.Shown].
func (s *shownClaims) Key(name string) (storage.Key, bool) {
	object := s.values.Name(name)
	return s.kind.key("", object), object != ""
}

// Encode implements [claims.Shown].
func (s *shownClaims) Encode(name string, c claims.Claim) ([]byte, error) {
	namespace, holder, err := s.holder.splitKey(c.Holder)
	if err != nil {
		return nil, err
	}
	obj := s.values.New(name, namespace, holder)
	accessor(obj).SetUID(s.namer.uid(s.kind.gr, "", accessor(obj).GetName()))
	return s.encode(obj, c.Time)
}

// Renew implements [claims.Shown].
func (s *shownClaims) Renew(record storage.Record, c claims.Claim) ([]byte, error) {
	obj, err := s.kind.decode(record)
	if err != nil {
		return nil, err
	}
	return s.encode(obj.DeepCopyObject(), c.Time)
}

func (s *shownClaims) encode(obj runtime.Object, at time.Time) ([]byte, error) {
	if at.IsZero() {
		at = time.Now()
	}
	accessor(obj).SetCreationTimestamp(metav1.NewTime(at).Rfc3339Copy())
	return s.kind.encode(context.Background(), obj) // the kind has no Converter, which would need a context
}

// Decode implements [claims.Shown].
func (s *shownClaims) Decode(record storage.Record) (claims.Claim, error) {
	obj, err := s.kind.decode(record)
	if err != nil {
		return claims.Claim{}, err
	}
	return s.claim(obj), nil
}

// claim returns the claim that obj is. An object with finalizers is not removed as a claim.
func (s *shownClaims) claim(obj runtime.Object) claims.Claim {
	m := accessor(obj)
	namespace, name, ok := s.values.Holder(obj)
	return claims.Claim{
		Holder: s.holder.key(namespace, name), Time: m.GetCreationTimestamp().Time,
		Kept: !ok || len(m.GetFinalizers()) > 0,
	}
}

// taken reports whether a value is taken in state. A claim that another server has left over does not
// count.
func (s *shownClaims) taken(state cache.Snapshot[*object], value string) bool {
	key, _ := s.Key(value)
	i, ok := state.Get(key)
	if !ok || i.Err != nil {
		return ok
	}
	c := s.claim(i.Object.Object)
	return c.Kept || !claims.Old(c) || s.holds(c.Holder, value)
}

// present reports whether there is an object of a value.
func (s *shownClaims) present(value string) bool {
	key, _ := s.Key(value)
	_, ok := s.kind.cache.Peek(key)
	return ok
}

// holds reports whether the cached object at key has a value.
func (s *shownClaims) holds(key storage.Key, value string) bool {
	i, ok := s.holder.cache.Peek(key)
	if !ok || i.Err != nil {
		return ok
	}
	return slices.Contains(s.holder.Allocation.Names(i.Object.Object), value)
}

// splitKey returns the namespace and the name of the object that is stored under key.
func (k *servedKind) splitKey(key storage.Key) (namespace, name string, err error) {
	path, ok := strings.CutPrefix(string(key), k.root)
	if !ok {
		return "", "", fmt.Errorf("%s is not the key of one of the %s", key, k.gr)
	}
	if !k.Namespaced {
		return "", path, nil
	}
	namespace, name, _ = strings.Cut(path, "/")
	return namespace, name, nil
}
