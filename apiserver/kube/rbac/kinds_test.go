package rbac_test

import (
	"testing"

	"github.com/planekit/planekit/apiserver/kube/internal/kindtest"
	"github.com/planekit/planekit/apiserver/kube/rbac"
)

func TestKinds(t *testing.T) { kindtest.Run(t, rbac.Resources()) }
