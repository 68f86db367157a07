package podconfig_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/podconfig"
	"github.com/criadapter/criadapter/kubelet/podconfig/podconfigtest"
)

// fresh is the manifest of one pod.
const fresh = "apiVersion: v1\nkind: Pod\nmetadata: {name: fresh}\nspec: {containers: [{name: c, image: \"1\"}]}\n"

// fromURL returns a static pod of a URL as a checkpoint has it.
func fromURL(uid, name, url string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Name: name, Namespace: "default",
			Annotations: map[string]string{
				model.AnnotationConfigSource: model.SourceHTTP, model.AnnotationManifest: url,
			}},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "image"}}},
	}
}

// inMemory is a transport that calls a handler, so that a slow machine does not end a request.
type inMemory struct{ http.Handler }

func (m inMemory) RoundTrip(request *http.Request) (*http.Response, error) {
	answer := httptest.NewRecorder()
	m.ServeHTTP(answer, request)
	return answer.Result(), nil
}

// TestURLRuns keeps restored pods while the URL fails, takes its first answer, and asks again.
func TestURLRuns(t *testing.T) {
	const url = "http://manifests.example/"
	asked := 0
	server := inMemory{http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch asked++; {
		case asked < 3:
			w.WriteHeader(http.StatusBadGateway)
		case asked < 5: // restored pods stay while the manifest is wrong
			fmt.Fprint(w, fresh+"---\nkind: [")
		default:
			fmt.Fprint(w, fresh)
		}
	})}
	synctest.Test(t, func(t *testing.T) {
		checkpoint := &podconfig.Checkpoint{Path: filepath.Join(t.TempDir(), "pods.json")}
		old, foreign := fromURL("1", "old-n", url), fromURL("2", "foreign-n", "http://elsewhere.example/")
		testutil.Must(t, checkpoint.Save([]*v1.Pod{old, foreign}))
		config := podconfig.New(podconfig.Options{Checkpoint: checkpoint, Sources: []string{model.SourceHTTP}})
		_, err := config.Restore(t.Context())
		testutil.Must(t, err)
		found := podconfigtest.NewErrors()
		opts := podconfig.URLOptions{URL: url, NodeName: "n", Problem: found.Add}.WithClient(
			&http.Client{Transport: server})
		r := podconfigtest.Run(t, config, podconfig.NewURLSource(opts, config).Run)
		r.Want("restored", "ADD:2 ADD:1")
		synctest.Wait()
		err = found.Await(t)
		testutil.Assert(t, err != nil && !config.SeenAllSources(), "problem %v, ready %v", err, config.SeenAllSources())
		var words []string
		for len(words) < 3 {
			u := r.Next()
			words = append(words, string(u.Op)+":"+strings.TrimSuffix(u.Pods[0].Name, "-n"))
		}
		want := []string{"REMOVE:foreign", "ADD:fresh", "REMOVE:old"}
		testutil.Assert(t, slices.Equal(words, want), "reported %q, want %q", words, want)
		synctest.Wait()
		problems := found.All()
		testutil.Assert(t, len(problems) == 3 && problems[1] != nil && problems[2] == nil && config.SeenAllSources(),
			"reported %v, ready %v", problems, config.SeenAllSources())
	})
}
