package flowcontrol_test

import (
	"testing"

	"github.com/planekit/planekit/apiserver/kube/flowcontrol"
	"github.com/planekit/planekit/apiserver/kube/internal/kindtest"
)

func TestKinds(t *testing.T) { kindtest.Run(t, flowcontrol.Resources()) }
