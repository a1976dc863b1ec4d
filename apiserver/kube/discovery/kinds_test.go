package discovery_test

import (
	"testing"

	"github.com/planekit/planekit/apiserver/kube/discovery"
	"github.com/planekit/planekit/apiserver/kube/internal/kindtest"
)

func TestKinds(t *testing.T) { kindtest.Run(t, discovery.Resources()) }
