package webhook

import (
	"fmt"
	"testing"
	"time"

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
		t.Errorf("%v %v", got, ok)
	}
	if _, ok := c.get(1, &get); ok || c.order.Len() != 1 || len(c.answers) != 1 {
		t.Errorf("%d in order, %d by hash", c.order.Len(), len(c.answers))
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
