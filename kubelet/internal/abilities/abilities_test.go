package abilities_test

import (
	"testing"

	"github.com/planekit/planekit/kubelet/internal/abilities"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestSet(t *testing.T) {
	var s abilities.Set
	check := func(what, handler, refusal string, recursive bool) {
		t.Helper()
		said := ""
		if err := s.CheckUserNamespaces(handler); err != nil {
			said = err.Error()
		}
		if said != refusal || s.RecursiveReadOnlyMounts(handler) != recursive {
			t.Errorf("%s: CheckUserNamespaces(%q): %q, recursive mounts %v; want %q, %v",
				what, handler, said, s.RecursiveReadOnlyMounts(handler), refusal, recursive)
		}
	}
	const plain = "can't set `spec.hostUsers: false`, runtime does not support user namespaces"
	check("nothing announced", "", plain, false)
	check("nothing announced", "kata", "can't set `spec.hostUsers: false`, RuntimeClass handler \"kata\" does not support user namespaces", false)

	earlier := corev1.NodeStatus{RuntimeHandlers: []corev1.NodeRuntimeHandler{{Name: "runc"}}}
	if s.Report(&earlier); len(earlier.RuntimeHandlers) != 1 {
		t.Errorf("%+v before the runtime has said anything", earlier)
	}
	s.Learn(&runtimeapi.StatusResponse{
		RuntimeHandlers: []*runtimeapi.RuntimeHandler{
			{Name: "", Features: &runtimeapi.RuntimeHandlerFeatures{RecursiveReadOnlyMounts: true, UserNamespaces: true}},
			{Name: "kata"},
		},
		Features: &runtimeapi.RuntimeFeatures{SupplementalGroupsPolicy: true},
	})
	check("the default", "", "", true)
	check("no features", "kata", "can't set `spec.hostUsers: false`, RuntimeClass handler \"kata\" does not support user namespaces", false)
	check("unknown", "runsc", "can't set `spec.hostUsers: false`, RuntimeClass handler \"runsc\" does not support user namespaces: the handler \"runsc\" is not known", false)
	if !s.SupplementalGroupsPolicy() {
		t.Error("no policy of groups")
	}

	var status corev1.NodeStatus
	s.Report(&status)
	is := func(b *bool, want bool) bool { return b != nil && *b == want }
	if h := status.RuntimeHandlers; len(h) != 2 || h[0].Features == nil || h[1].Features == nil || status.Features == nil ||
		!is(h[0].Features.UserNamespaces, true) || !is(h[0].Features.RecursiveReadOnlyMounts, true) ||
		!is(h[1].Features.UserNamespaces, false) || !is(h[1].Features.RecursiveReadOnlyMounts, false) || !is(status.Features.SupplementalGroupsPolicy, true) {
		t.Errorf("Report gives %v, want two handlers, only the first with user namespaces and recursive mounts, and the policy of groups",
			&status)
	}
	s.Learn(nil)
	s.Report(&status)
	if status.RuntimeHandlers != nil || s.SupplementalGroupsPolicy() {
		t.Errorf("%+v of a runtime that says nothing", status)
	}
}
