package fields

import (
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// imageRows are the fields of images and pulls.
func imageRows() []row {
	return []row{
		{
			fields: of("ImageSpec", "image"),
			by:     "container",
			says:   "It is the name, digest or id of the image.",
			seen:   []string{"test/e2e.TestImageReferences"},
			containers: []refusal{
				{"image volume without a name", invalid, "config.mounts[0].image.image",
					mountsOf(&runtimeapi.Mount{ContainerPath: "/a", Image: &runtimeapi.ImageSpec{}})},
			},
		},
		{
			fields: of("ImageSpec", "user_specified_image"),
			by:     "server",
			says:   "It is the name that a container's status shows for its image.",
			unseen: "no request to a real engine names it: the tests of statuses (server) and metrics (stats) show it",
		},
		{
			fields: of("ImageSpec", "runtime_handler"),
			says: "A pull, a container and a mount refuse a handler that the engine does not have. All " +
				"handlers share the same images, so lists and statuses show none.",
			unseen: "its only effect is a refusal, which the cases of this row show",
			containers: []refusal{
				{"unknown runtime for the image", invalid, "config.image.runtime_handler", func(r *request) {
					r.container.Image = &runtimeapi.ImageSpec{Image: "x", RuntimeHandler: "kata"}
				}},
				{"unknown runtime for an image volume", invalid, "config.mounts[0].image.runtime_handler",
					mountsOf(
						&runtimeapi.Mount{ContainerPath: "/a",
							Image: &runtimeapi.ImageSpec{Image: "x", RuntimeHandler: "kata"}})},
			},
		},
		{
			fields: of("ImageSpec", "image_ref"),
			by:     "container",
			says: "A container's status shows each mounted image here, by its name with the digest or by its id. " +
				"criadapter ignores a client's value.",
			seen: []string{"test/e2e.TestImageVolumes"},
		},
		{
			fields: of("PullImageRequest", "image", "auth"),
			says:   leads,
		},
		{
			fields: of("AuthConfig", "username", "password", "auth", "identity_token", "registry_token"),
			says: "criadapter gives them to the engine for this pull and keeps them nowhere; auth is the base64 form " +
				"of user and password.",
			seen: []string{"image.TestRigPullWithCredentials"},
			unseen: "the registry of the rig takes a user and a password: image's tests of credentials show that " +
				"the engine gets the rest",
		},
		{
			fields: of("AuthConfig", "server_address"),
			says:   "Credentials for another registry are not sent to the image's registry.",
			seen:   []string{"image.TestRigPullWithCredentials"},
		},
		{
			fields: append(of("ImageStatusRequest", "image", "verbose"), of("RemoveImageRequest", "image")...),
			says:   "They name the image; a verbose status has its configuration.",
			seen:   []string{"test/e2e.TestCrictlImages"},
		},
		{
			fields: append(append(of("ListImagesRequest", "filter"), of("StreamImagesRequest", "filter")...),
				of("ImageFilter", "image")...),
			says: "Only the image with that name or id is listed.",
			seen: []string{"test/e2e.TestCrictlImages"},
		},
	}
}
