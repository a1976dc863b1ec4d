package node_test

import (
	"testing"

	"github.com/planekit/planekit/apiserver/kube/internal/kindtest"
	"github.com/planekit/planekit/apiserver/kube/node"
)

func TestKinds(t *testing.T) { kindtest.Run(t, node.Resources()) }
