package apps_test

import (
	"testing"

	"github.com/planekit/planekit/apiserver/kube/apps"
	"github.com/planekit/planekit/apiserver/kube/internal/kindtest"
)

func TestKinds(t *testing.T) { kindtest.Run(t, apps.Resources()) }
