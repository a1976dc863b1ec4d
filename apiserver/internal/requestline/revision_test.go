package requestline

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestCheckRevision checks all combinations of the parameters: the errors are those of apimachinery.
func TestCheckRevision(t *testing.T) {
	yes, no := true, false
	refused := 0
	for _, watch := range []bool{false, true} {
		for _, initial := range []*bool{nil, &yes, &no} {
			for _, match := range []metav1.ResourceVersionMatch{"", exact, notOlder, "Newest"} {
				for _, revision := range []string{"", "0", "7"} {
					for _, token := range []string{"", "more"} {
						o := &metav1.ListOptions{
							Watch: watch, SendInitialEvents: initial, ResourceVersionMatch: match, ResourceVersion: revision, Continue: token,
						}
						theirs := &internalversion.ListOptions{
							Watch: watch, SendInitialEvents: initial, ResourceVersionMatch: match, ResourceVersion: revision, Continue: token,
						}
						if watch && initial == nil && match == "" && revision != "7" {
							// kube-apiserver completes such a request before it validates it.
							theirs.SendInitialEvents, theirs.ResourceVersionMatch = &yes, notOlder
						}
						got, want := checkRevision(o), validation.ValidateListOptions(theirs, true)
						if got.ToAggregate() != nil {
							refused++
						}
						if len(got) != len(want) || len(got) > 0 && got.ToAggregate().Error() != want.ToAggregate().Error() {
							t.Errorf("%+v: %v, want %v", o, got, want)
						}
					}
				}
			}
		}
	}
	t.Logf("%d combinations are refused", refused)
}
