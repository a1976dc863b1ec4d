package ownership_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/apiserver/internal/ownership"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSharedAges lets time pass: a text that is asked for now and then stays, one that is not goes.
func TestSharedAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &ownership.Shared{}
		text := func(of string) *metav1.FieldsV1 {
			obj := owned(of)
			s.Share(obj)
			return obj.ManagedFields[0].FieldsV1
		}
		const one, other = `{"f:often":{}}`, `{"f:once":{}}`
		often, once := text(one), text(other)
		for range 30 {
			time.Sleep(4 * time.Minute)
			synctest.Wait() // a table that is aging at this moment is not asked
			if text(one) != often {
				t.Fatal("a text that is asked for every four minutes was forgotten")
			}
		}
		if text(other) == once {
			t.Error("a text that nobody asked for in two hours was not forgotten")
		}
	})
}
