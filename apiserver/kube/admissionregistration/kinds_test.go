package admissionregistration_test

import (
	"testing"

	"github.com/planekit/planekit/apiserver/kube/admissionregistration"
	"github.com/planekit/planekit/apiserver/kube/internal/kindtest"
)

func TestKinds(t *testing.T) { kindtest.Run(t, admissionregistration.Resources()) }
