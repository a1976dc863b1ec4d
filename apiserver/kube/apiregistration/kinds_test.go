package apiregistration_test

import (
	"testing"

	"github.com/planekit/planekit/apiserver/kube/apiregistration"
	"github.com/planekit/planekit/apiserver/kube/internal/kindtest"
)

func TestKinds(t *testing.T) { kindtest.Run(t, apiregistration.Resources()) }
