package coordination_test

import (
	"testing"

	"github.com/planekit/planekit/apiserver/kube/coordination"
	"github.com/planekit/planekit/apiserver/kube/internal/kindtest"
)

func TestKinds(t *testing.T) { kindtest.Run(t, coordination.Resources()) }
