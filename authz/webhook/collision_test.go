package webhook

import (
	"fmt"
	"hash/maphash"
	"reflect"
	"testing"
	"time"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
)

// TestHashAlike has two questions under one hash, which chance makes hardly ever.
func TestHashAlike(t *testing.T) {
	c := newCache()
	get, list := authz.Attributes{Verb: "get", Resource: "pods"}, authz.Attributes{Verb: "list", Resource: "pods"}
	c.put(1, get, answer{decision: authz.Allow}, time.Hour)
	if got, ok := c.get(1, &list); ok {
		t.Errorf("another question's answer: %v", got)
	}
	c.put(1, list, answer{decision: authz.Deny}, time.Hour)
	if got, ok := c.get(1, &list); !ok || got.decision != authz.Deny {
		t.Errorf("get(1, list) = %+v, %v, want the decision %v, true", got, ok, authz.Deny)
	}
	if _, ok := c.get(1, &get); ok || c.order.Len() != 1 || len(c.answers) != 1 {
		t.Errorf("%d in order, %d by hash", c.order.Len(), len(c.answers))
	}
}

// TestSame changes one thing at a time, every field that attributes and users
// have, so that a new one is not forgotten.
func TestSame(t *testing.T) {
	seed := maphash.MakeSeed()
	ask := func() (*authz.Attributes, *user.Info) {
		u := &user.Info{Name: "jane", UID: "17", Groups: []string{"a", "b"}, Extra: map[string][]string{"k": {"a", "b"}, "l": {"c"}}}
		return &authz.Attributes{User: u, Verb: "get", Resource: "pods", Fields: []authz.Requirement{{Key: "k", Operator: authz.In, Values: []string{"a"}}}}, u
	}
	first, _ := ask()
	second, _ := ask()
	if !same(first, second) || hash(seed, first) != hash(seed, second) {
		t.Fatal("equal questions are not the same")
	}
	var changes []func(*authz.Attributes, *user.Info)
	for i := range reflect.TypeFor[authz.Attributes]().NumField() {
		changes = append(changes, func(at *authz.Attributes, _ *user.Info) { change(t, reflect.ValueOf(at).Elem().Field(i)) })
	}
	for i := range reflect.TypeFor[user.Info]().NumField() {
		changes = append(changes, func(_ *authz.Attributes, u *user.Info) { change(t, reflect.ValueOf(u).Elem().Field(i)) })
	}
	changes = append(changes,
		func(_ *authz.Attributes, u *user.Info) { u.Groups = []string{"ab"} },
		func(at *authz.Attributes, _ *user.Info) { at.Fields[0].Key = "x" },
		func(at *authz.Attributes, _ *user.Info) { at.Fields[0].Operator = authz.NotIn },
		func(at *authz.Attributes, _ *user.Info) { at.Fields[0].Values = []string{"b"} },
		func(at *authz.Attributes, _ *user.Info) { at.Fields, at.Labels = nil, at.Fields },
		func(_ *authz.Attributes, u *user.Info) { u.Extra["k"] = []string{"b", "a"} },
		func(_ *authz.Attributes, u *user.Info) { u.Extra["k"], u.Extra["l"] = u.Extra["l"], u.Extra["k"] },
		func(_ *authz.Attributes, u *user.Info) { delete(u.Extra, "l") },
	)
	for i, apply := range changes {
		at, u := ask()
		apply(at, u)
		if same(first, at) || same(at, first) || hash(seed, first) == hash(seed, at) {
			t.Errorf("change %d: %+v by %+v is the same", i, at, at.User)
		}
	}
}

// change sets a field to something else.
func change(t *testing.T, field reflect.Value) {
	switch v := field.Addr().Interface().(type) {
	case *string:
		*v += "x"
	case **user.Info:
		*v = nil
	case *[]string:
		*v = append(*v, "x")
	case *[]authz.Requirement:
		*v = append(*v, authz.Requirement{Key: "x", Operator: authz.In, Values: []string{"y"}})
	case *map[string][]string:
		(*v)["x"] = nil
	default:
		t.Fatalf("%s is of no known type: does the service learn of it?", field.Type())
	}
}

func TestBound(t *testing.T) {
	c := newCache()
	for i := range uint64(3 * mostAnswers) {
		c.put(i, authz.Attributes{Name: fmt.Sprint(i)}, answer{}, time.Hour)
	}
	if c.order.Len() != mostAnswers || len(c.answers) != mostAnswers {
		t.Errorf("%d in order, %d by hash", c.order.Len(), len(c.answers))
	}
}
