package autoscaling_test

import (
	"testing"

	"github.com/planekit/planekit/apiserver/kube/autoscaling"
	"github.com/planekit/planekit/apiserver/kube/internal/kindtest"
)

func TestKinds(t *testing.T) { kindtest.Run(t, autoscaling.Resources()) }
