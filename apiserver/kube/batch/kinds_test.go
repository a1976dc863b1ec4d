package batch_test

import (
	"testing"

	"github.com/planekit/planekit/apiserver/kube/batch"
	"github.com/planekit/planekit/apiserver/kube/internal/kindtest"
)

func TestKinds(t *testing.T) { kindtest.Run(t, batch.Resources()) }
