package rules_test

import (
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/internal/rules"
	registration "k8s.io/api/admissionregistration/v1"
)

// TestExempt checks that only the kinds that configure admission are exempt.
func TestExempt(t *testing.T) {
	for kind, want := range map[admission.GroupVersionKind]bool{
		{Group: registration.GroupName, Version: "v1", Kind: "ValidatingAdmissionPolicy"}:    true,
		{Group: registration.GroupName, Version: "v1", Kind: "MutatingWebhookConfiguration"}: true,
		{Group: registration.GroupName, Version: "v1", Kind: "Other"}:                        false,
		{Group: "example.com", Version: "v1", Kind: "ValidatingAdmissionPolicy"}:             false,
	} {
		if got := rules.Exempt(kind); got != want {
			t.Errorf("Exempt(%v) = %t, want %t", kind, got, want)
		}
	}
}
