package scheduling_test

import (
	"testing"

	"github.com/planekit/planekit/apiserver/kube/internal/kindtest"
	"github.com/planekit/planekit/apiserver/kube/scheduling"
)

func TestKinds(t *testing.T) { kindtest.Run(t, scheduling.Resources()) }
