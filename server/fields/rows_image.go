package fields

// imageRows are the fields of images and pulls.
func imageRows() []row {
	return []row{
		{
			fields: of("ImageSpec", "image"), is: implemented,
			says: "It is the name, digest or id of the image.",
		},
		{
			fields: of("ImageSpec", "user_specified_image"), is: implemented,
			says: "It is the name that a container's status shows for its image.",
		},
		{
			fields: of("ImageSpec", "annotations"), is: notApplicable,
			says: "They are for runtimes that choose among architectures, and a kubelet sends the pod's with each pull; the engine pulls what is for its own. A container's come back unchanged.",
		},
		{
			fields: of("ImageSpec", "runtime_handler"), is: implemented,
			says: "A pull, a container and a mount refuse one that the engine does not have; images are the same for all of them.",
		},
		{
			fields: of("ImageSpec", "image_ref"), is: implemented,
			says: "A container's status shows with each mounted image its name by digest, or its id; what a client sends there is not read.",
		},
		{
			fields: of("PullImageRequest", "image", "auth"), is: implemented,
			says: "The engine pulls the image; their fields have rows of their own.",
		},
		{
			fields: of("PullImageRequest", "sandbox_config"), is: notApplicable,
			says: "It holds no credentials, which are in auth; the log names the pod that asks.",
		},
		{
			fields: of("AuthConfig", "username", "password", "auth", "identity_token", "registry_token"), is: implemented,
			says: "They are handed to the engine for this pull and kept nowhere; auth is the base64 form of user and password.",
		},
		{
			fields: of("AuthConfig", "server_address"), is: implemented,
			says: "Credentials for another registry than the image's are not sent to it.",
		},
		{
			fields: append(of("ImageStatusRequest", "image", "verbose"), of("RemoveImageRequest", "image")...), is: implemented,
			says: "They name the image; a verbose status has its configuration.",
		},
		{
			fields: append(append(of("ListImagesRequest", "filter"), of("StreamImagesRequest", "filter")...), of("ImageFilter", "image")...), is: implemented,
			says: "Only the image with that name or id is listed.",
		},
	}
}
