package networking_test

import (
	"testing"

	"github.com/planekit/planekit/apiserver/kube/internal/kindtest"
	"github.com/planekit/planekit/apiserver/kube/networking"
)

func TestKinds(t *testing.T) { kindtest.Run(t, networking.Resources()) }
