package core_test

import (
	"testing"

	"github.com/planekit/planekit/apiserver/kube/core"
	"github.com/planekit/planekit/apiserver/kube/internal/kindtest"
)

func TestKinds(t *testing.T) { kindtest.Run(t, core.Resources(core.Config{})) }
